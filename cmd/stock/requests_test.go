package main

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A call is one request of requests.http, with the status that its title gives.
type call struct {
	title, method, url, body string
	header                   http.Header
	status                   int
}

// calls reads requests.http as an editor does, with host in place of its own.
func calls(t *testing.T, host string) []call {
	t.Helper()
	text, err := os.ReadFile("../../requests.http")
	if err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`(\d{3})$`)
	var all []call
	for _, part := range strings.Split(string(text), "\n### ")[1:] {
		name, request, _ := strings.Cut(part, "\n")
		head, body, _ := strings.Cut(request, "\n\n")
		lines := strings.Split(strings.TrimSpace(head), "\n")
		method, target, ok := strings.Cut(lines[0], " ")
		status := title.FindString(name)
		if !ok || status == "" {
			t.Fatalf("%q has no request line, or its title no status", name)
		}
		c := call{title: name, method: method, body: strings.TrimSpace(body), header: make(http.Header)}
		c.url = strings.Replace(target, "{{host}}", host, 1)
		c.status, _ = strconv.Atoi(status)
		for _, line := range lines[1:] {
			key, value, _ := strings.Cut(line, ": ")
			c.header.Set(key, value)
		}
		all = append(all, c)
	}
	return all
}

// Every call of requests.http is answered as its title says, in the order of the file, and again when it is sent a second
// time.
func TestFirstCalls(t *testing.T) {
	c := startRedisOnly(t)
	first := calls(t, c.front.URL)
	if len(first) != 10 {
		t.Errorf("there are %d calls, want 10", len(first))
	}
	for range 2 {
		for _, call := range first {
			req, err := http.NewRequestWithContext(t.Context(), call.method, call.url, strings.NewReader(call.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = call.header
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != call.status || err != nil {
				t.Errorf("%s: answered %d, %v\n%s", call.title, resp.StatusCode, err, body)
			}
		}
	}
}

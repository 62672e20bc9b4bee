package app

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// dial opens a connection to the instance, and sends the given bytes as they are.
func (i *instance) dial(t *testing.T, sent string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(i.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, sent); err != nil {
		t.Fatal(err)
	}
	return c
}

// trickle sends a part of a body repeatedly until the connection takes no more or stop is called.
func trickle(c net.Conn, part string, every time.Duration) (stop func()) {
	end := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			if _, err := io.WriteString(c, part); err != nil {
				return
			}
			select {
			case <-end:
				return
			case <-time.After(every):
			}
		}
	})
	return func() {
		close(end)
		_ = c.SetWriteDeadline(time.Now())
		sending.Wait()
	}
}

// cutOff is when a test gives up waiting for an event that is due within 6 s: it was 150 s, and a busy machine may
// stall.
const cutOff = 40 * time.Second

// If a body is announced and does not come, or never ends, every route answers within 6 s, and the connection is
// closed.
func TestABodyThatDoesNotCome(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	i := begin(t, backends("--lab")...)
	var all sync.WaitGroup
	defer all.Wait()
	const length, chunked = "Content-Length: 10\r\n", "Transfer-Encoding: chunked\r\n"
	const host, admin = " HTTP/1.1\r\nHost: stock\r\n", "Authorization: Bearer " + token + "\r\n"
	const enormous = "Content-Length: 10000000000\r\nExpect: 100-continue\r\n"
	kilobyte := "400\r\n" + strings.Repeat(" ", 1024) + "\r\n"
	for _, row := range []struct {
		name, line, header string
		body               string        // sent with the header
		part               string        // sent again and again, every so often
		every              time.Duration // 0: nothing more is sent
		status             int
	}{
		{"a sale", "POST /deduct_stock", length, "", "", 0, 408},
		{"stock is set", "PUT /v1/stock/a", admin + length, "", "", 0, 408},
		{"stock", "GET /v1/stock/a", length, "", "", 0, 408},
		{"livez", "GET /livez", length, "", "", 0, 200},
		{"a byte a second", "POST /deduct_stock", length, "", " ", time.Second, 408},
		{"a slow chunk", "POST /deduct_stock", chunked, "5\r\n", " ", 2 * time.Second, 408},
		{"chunks without end, slowly", "POST /deduct_stock", chunked, "", "1\r\n \r\n", 200 * time.Millisecond, 408},
		{"chunks without end, fast", "POST /deduct_stock", chunked, "", kilobyte, time.Microsecond, 413},
		{"expect 10 GB", "POST /deduct_stock", enormous, "", "", 0, 413},
		{"pipelined", "POST /deduct_stock", "Content-Length: 1000\r\n", "GET /livez" + host + "\r\n", "", 0, 408},
	} {
		c := i.dial(t, row.line+host+"Content-Type: application/json\r\n"+row.header+"\r\n"+row.body)
		all.Go(func() { // not t.Parallel, which runs as many at a time as there are processors
			if row.every > 0 {
				defer trickle(c, row.part, row.every)()
			}
			_ = c.SetReadDeadline(time.Now().Add(cutOff))
			in := bufio.NewReader(c)
			r, err := http.ReadResponse(in, nil)
			for err == nil && r.StatusCode == http.StatusContinue {
				r, err = http.ReadResponse(in, nil)
			}
			if err != nil {
				t.Errorf("%s: no reply: %v", row.name, err)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != row.status || !r.Close || !json.Valid(body) {
				t.Errorf("%s: %d %s, %v, closed: %v; want %d and that it is closed",
					row.name, r.StatusCode, body, err, r.Close, row.status)
			}
			if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: after the reply %q, %v; want the end of the connection", row.name, rest, err)
			}
		})
	}
}

// An instance stops on time, on either listener, despite connections whose bodies do not come, that do not take their
// replies, or that send nothing.
func TestShutdownDoesNotWaitForBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	i := begin(t, backends("--drain=500ms")...)
	for n := range 100 {
		line := []string{"POST /deduct_stock", "GET /livez", "POST /nowhere", "PUT /v1/stock/a"}[n%4]
		i.dial(t, line+" HTTP/1.1\r\nHost: stock\r\nContent-Length: 10\r\n\r\n")
	}
	for n := range 20 {
		i.dial(t, []string{"", "GET /livez HTTP/1.1\r\nHo"}[n%2])
	}
	operators := &instance{url: i.admin}
	for n := range 8 {
		operators.dial(t,
			[]string{"", "GET /met", "GET /metrics HTTP/1.1\r\nHost: stock\r\nContent-Length: 10\r\n\r\n"}[n%3])
	}
	for range 5 {
		c := i.dial(t, "")
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		defer trickle(c, strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: stock\r\n\r\n", 100), time.Millisecond)()
	}
	// On a busy computer, the first have waited 5 s for their bodies, and are gone, before the last have arrived.
	inFlight(t, i, 20, func() {
		i.dial(t, "POST /deduct_stock HTTP/1.1\r\nHost: stock\r\nContent-Length: 10\r\n\r\n")
	})
	i.end(t) // within a minute: 5.5 s, on a machine with nothing else to do; it was 77 s
}

package stack_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack"
)

// hidden is a request that nginx refuses, because its path is for operators. An instance that gets it has read the end
// of a request elsewhere than nginx.
const hidden = "DELETE /v1/locks/zk/smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"

// whole is a request that an instance may get of an attack: the first one, with a body that is whole.
var whole = regexp.MustCompile(`^(GET|POST|PUT) /take map\[[^\n]*\] "[^\n]*" <nil>$`)

// Each attack makes it doubtful where a request ends, or which header counts.
func TestNoRequestIsSmuggled(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{})
	apps, err := s.Serve(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Front(t.Context()); err != nil {
		t.Fatal(err)
	}
	front := need(t, s, "nginx")
	length := func(body string) string { return strconv.Itoa(len(body)) + "\r\n\r\n" }
	const line = "POST /take HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
	chunked := "0\r\n\r\n" + hidden
	for name, raw := range map[string]string{
		"length and chunks":             line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"chunks and length":             line + "Transfer-Encoding: chunked\r\nContent-Length: 900\r\n\r\n" + chunked,
		"two lengths":                   line + "Content-Length: 0\r\nContent-Length: 70\r\n\r\n" + hidden,
		"a list of lengths":             line + "Content-Length: 0, 70\r\n\r\n" + hidden,
		"a length with a sign":          line + "Content-Length: +0\r\n\r\n" + hidden,
		"a length in hex":               line + "Content-Length: 0x46\r\n\r\n" + hidden,
		"a blank before the colon":      line + "Transfer-Encoding : chunked\r\nContent-Length: " + length(chunked) + chunked,
		"a folded line":                 line + "X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: " + length(chunked) + chunked,
		"an encoding with a tab":        line + "Transfer-Encoding:\tchunked\r\n\r\n" + chunked,
		"an encoding that is unknown":   line + "Transfer-Encoding: xchunked\r\n\r\n" + chunked,
		"an encoding of two":            line + "Transfer-Encoding: identity, chunked\r\n\r\n" + chunked,
		"chunks with an extension":      line + "Transfer-Encoding: chunked\r\n\r\n0;a=\n\r\n\r\n" + hidden,
		"a chunk that is too long":      line + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc" + chunked,
		"a size that overflows":         line + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + chunked,
		"lines with LF alone":           strings.ReplaceAll(line+"Content-Length: 0\r\n\r\n", "\r\n", "\n") + hidden,
		"a bare CR":                     line + "X-A: b\rContent-Length: " + length(hidden) + hidden,
		"a NUL":                         line + "X-A: b\x00\r\nContent-Length: 0\r\n\r\n" + hidden,
		"an old version":                "POST /take HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: " + length(chunked) + chunked,
		"a body of a GET":               "GET /take HTTP/1.1\r\nHost: a\r\nContent-Length: " + length(hidden) + hidden,
		"a body of a PUT":               "PUT /take HTTP/1.1\r\nHost: a\r\nContent-Length: " + length(hidden) + hidden,
		"chunks of a PUT":               "PUT /take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"an absolute URI":               "DELETE http://a/v1/locks/zk/smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		"a method of one's own":         line + "X-Stock-Method: DELETE\r\nContent-Length: 0\r\n\r\n",
		"a method of one's own, of PUT": "PUT /take HTTP/1.1\r\nHost: a\r\nX-Stock-Method: DELETE\r\nContent-Length: 0\r\n\r\n",
		"the preface of HTTP/2":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden,
	} {
		answer := sendRaw(t, front.Addr, raw)
		// A request on the connection that nginx keeps to the instance: what was left there would come before it.
		post(t, front.URL+"/sell", "")
		seen := body(t, apps[0].URL+"/taken")
		if seen != "" && !whole.MatchString(seen) {
			t.Errorf("%s: the instance got\n%s\nand nginx answered\n%s", name, seen, answer)
		}
		if strings.Contains(seen, "X-Stock-Method") {
			t.Errorf("%s: nginx passed its own header on:\n%s", name, seen)
		}
	}

	// What nginx passes on as it is: the service refuses two tokens itself, and takes no token elsewhere.
	for name, c := range map[string]struct{ header, want, never string }{
		"a header that Connection names": {
			"Authorization: Bearer a\r\nConnection: Authorization\r\n", `"Authorization":["Bearer a"]`, "",
		},
		"underscores": {"X_Forwarded_For: 6.6.6.6\r\nAuthorization_: Bearer a\r\n", "POST /take", "6.6.6.6"},
		"an address":  {"X-Forwarded-For: 6.6.6.6\r\n", `"X-Forwarded-For":["6.6.6.6, 127.0.0.1"]`, ""},
		"a host":      {"Host: a/../v1/locks\r\n", "", "v1/locks"},
	} {
		sendRaw(t, front.Addr, "POST /take HTTP/1.1\r\n"+c.header+
			map[bool]string{true: "", false: "Host: a\r\n"}[strings.HasPrefix(c.header, "Host")]+"Content-Length: 0\r\n\r\n")
		seen := body(t, apps[0].URL+"/taken")
		if !strings.Contains(seen, c.want) || c.never != "" && strings.Contains(seen, c.never) {
			t.Errorf("%s: the instance got %q, want %q and never %q", name, seen, c.want, c.never)
		}
	}
}

// sendRaw sends text as it is, and returns the first reply.
func sendRaw(t *testing.T, addr, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error() // nginx closes the connection after some of them
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body) // may be cut
	return res.Status + "\n" + string(answer)
}

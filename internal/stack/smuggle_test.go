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
// of a request elsewhere than nginx. In these texts | stands for the end of a line, CR LF.
const hidden = "DELETE /v1/locks/zk/smuggled HTTP/1.1|Host: a|Content-Length: 0||"

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
	sized := func(body string) string { return "Content-Length: " + strconv.Itoa(len(body)) + "||" + body }
	const line, put = "POST /take HTTP/1.1|Host: a|Connection: close|", "PUT /take HTTP/1.1|Host: a|"
	chunked := "0||" + hidden
	for name, raw := range map[string]string{
		"length and chunks":             line + "Content-Length: 5|Transfer-Encoding: chunked||" + chunked,
		"chunks and length":             line + "Transfer-Encoding: chunked|Content-Length: 900||" + chunked,
		"two lengths":                   line + "Content-Length: 0|Content-Length: 70||" + hidden,
		"a list of lengths":             line + "Content-Length: 0, 70||" + hidden,
		"a length with a sign":          line + "Content-Length: +0||" + hidden,
		"a length in hex":               line + "Content-Length: 0x46||" + hidden,
		"a blank before the colon":      line + "Transfer-Encoding : chunked|" + sized(chunked),
		"a folded line":                 line + "X-A: b| Transfer-Encoding: chunked|" + sized(chunked),
		"an encoding with a tab":        line + "Transfer-Encoding:\tchunked||" + chunked,
		"an encoding that is unknown":   line + "Transfer-Encoding: xchunked||" + chunked,
		"an encoding of two":            line + "Transfer-Encoding: identity, chunked||" + chunked,
		"chunks with an extension":      line + "Transfer-Encoding: chunked||0;a=\n||" + hidden,
		"a chunk that is too long":      line + "Transfer-Encoding: chunked||2|abc" + chunked,
		"a size that overflows":         line + "Transfer-Encoding: chunked||10000000000000000|" + chunked,
		"lines with LF alone":           strings.ReplaceAll(line+"Content-Length: 0||", "|", "\n") + hidden,
		"a bare CR":                     line + "X-A: b\r" + sized(hidden),
		"a NUL":                         line + "X-A: b\x00|Content-Length: 0||" + hidden,
		"an old version":                "POST /take HTTP/1.0|Transfer-Encoding: chunked|" + sized(chunked),
		"a body of a GET":               "GET /take HTTP/1.1|Host: a|" + sized(hidden),
		"a body of a PUT":               put + sized(hidden),
		"chunks of a PUT":               put + "Transfer-Encoding: chunked||" + chunked,
		"an absolute URI":               strings.Replace(hidden, "/v1", "http://a/v1", 1),
		"a method of one's own":         line + "X-Stock-Method: DELETE|Content-Length: 0||",
		"a method of one's own, of PUT": put + "X-Stock-Method: DELETE|Content-Length: 0||",
		"the preface of HTTP/2":         "PRI * HTTP/2.0||SM||" + hidden,
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
			"Host: a|Authorization: Bearer a|Connection: Authorization", `"Authorization":["Bearer a"]`, "",
		},
		"underscores": {"Host: a|X_Forwarded_For: 6.6.6.6|Authorization_: Bearer a", "POST /take", "6.6.6.6"},
		"an address":  {"Host: a|X-Forwarded-For: 6.6.6.6", `"X-Forwarded-For":["6.6.6.6, 127.0.0.1"]`, ""},
		"a host":      {"Host: a/../v1/locks", "", "v1/locks"},
	} {
		sendRaw(t, front.Addr, "POST /take HTTP/1.1|"+c.header+"|Content-Length: 0||")
		seen := body(t, apps[0].URL+"/taken")
		if !strings.Contains(seen, c.want) || c.never != "" && strings.Contains(seen, c.never) {
			t.Errorf("%s: the instance got %q, want %q and never %q", name, seen, c.want, c.never)
		}
	}
}

// sendRaw sends text, with | as the end of a line, and returns the first reply.
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
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "|", "\r\n")); err != nil {
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

package handler

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// bodyTimeout is how long a client may take to send its body, from the end of the request's header. The deadline is
	// for the whole body, not for each read: a client that sends a byte a second does not extend it.
	bodyTimeout = 5 * time.Second
	// replyTimeout is how long a client may take to receive a reply.
	replyTimeout = 5 * time.Second
	// linger is how long the rest of an unwanted body is received after the reply. If the connection were closed at
	// once, it would be reset, and a client that is still sending might lose the reply.
	linger = time.Second
)

// limits restricts how long a client can keep a connection busy: bodyTimeout to send a body, replyTimeout to receive
// the reply. The wait for a lock is between the two and has its own limit.
//
// http.Server.ReadTimeout cannot do this: its deadline stays on the connection while the handler waits for a lock, and
// when it passes, the client seems to have disconnected. A limit around the handler's reads is not enough either,
// because net/http itself reads the rest of a body, before the reply and after the handler. So the deadline stays until
// the body has been read to its end. If the reply begins earlier, it is the last one on its connection.
//
// limits also closes connections while the instance drains: every reply is the last one on its connection. So when the
// instance stops, a proxy has no open connection to send a request on.
type limits struct {
	next     http.Handler
	draining func() bool
}

func (l limits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limited := &limitedWriter{ResponseWriter: w, connection: *http.NewResponseController(w), draining: l.draining}
	if r.ContentLength != 0 {
		limited.until = time.Now().Add(bodyTimeout)
		_ = limited.connection.SetReadDeadline(limited.until)
		limited.unread = true
		// A copy, because net/http still uses the body of the original request.
		own := *r
		own.Body = &limitedBody{http.MaxBytesReader(w, r.Body, MaxBody), limited}
		r = &own
	}
	l.next.ServeHTTP(limited, r)
}

// A limitedBody removes the read deadline when it has been read to its end.
type limitedBody struct {
	io.ReadCloser
	w *limitedWriter
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.w.unread && errors.Is(err, io.EOF) {
		b.w.unread = false
		_ = b.w.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

type limitedWriter struct {
	http.ResponseWriter
	connection http.ResponseController
	unread     bool      // the body has not been read to its end
	until      time.Time // the deadline of the body
	draining   func() bool
}

// WriteHeader asks whether the instance drains when the reply begins. At the start of the request it would be too
// early: a request that arrived before the drain and waited for a lock would leave its connection open, and the stop
// could then close the connection during the next request.
func (w *limitedWriter) WriteHeader(status int) {
	if w.draining() {
		w.Header().Set("Connection", "close")
	}
	if w.unread {
		w.Header().Set("Connection", "close") // so that net/http does not wait for the body before it sends the reply
		if soon := time.Now().Add(linger); soon.Before(w.until) {
			_ = w.connection.SetReadDeadline(soon)
		}
	}
	_ = w.connection.SetWriteDeadline(time.Now().Add(replyTimeout))
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *limitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package handler

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// bodyTimeout is how long a client may take to send its body, from the end of the request's header. It is one
	// deadline for the whole body, not one for each read: a byte a second does not extend it.
	bodyTimeout = 5 * time.Second
	// replyTimeout is how long a client may take to receive a reply.
	replyTimeout = 5 * time.Second
	// linger is how long the rest of an unwanted body is still received after the reply. To close at once would reset
	// the connection under a client that is still sending, which then may lose the reply.
	linger = time.Second
)

// limits bounds the time for which a client can keep a connection busy: bodyTimeout to send a body, replyTimeout to
// receive the reply. The wait for a lock is between the two and has its own limit.
//
// http.Server.ReadTimeout cannot do that: its deadline stays on the connection while the handler waits for a lock,
// and then looks like a client that went away. A limit where the body is read is not enough either: net/http itself
// reads what is left of a body, before the reply if the connection is to be kept, and after the handler has returned.
// So the deadline stays until the body has been read to its end. If it has not been, the reply is the last one on its
// connection.
type limits struct{ next http.Handler }

func (l limits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limited := &limitedWriter{ResponseWriter: w, connection: *http.NewResponseController(w)}
	if r.ContentLength != 0 {
		limited.until = time.Now().Add(bodyTimeout)
		_ = limited.connection.SetReadDeadline(limited.until)
		limited.unread = true
		// A copy, because net/http looks at the body of the request that it has handed out.
		own := *r
		own.Body = &limitedBody{http.MaxBytesReader(w, r.Body, MaxBody), limited}
		r = &own
	}
	l.next.ServeHTTP(limited, r)
}

// A limitedBody lifts the limit when it has been read to its end.
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
	unread     bool      // there is a body, and it has not been read to its end
	until      time.Time // the deadline of the body
}

func (w *limitedWriter) WriteHeader(status int) {
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

// connectionCloser closes connections while the instance drains: every reply says that it is the last one on its
// connection. So when the instance stops, a proxy has no connection left on which it could send a request.
//
// It looks when the reply begins, not when the request comes. A request that came before the drain and waited for a
// lock would otherwise leave its connection open, which the stop would close while the next request is on its way.
type connectionCloser struct {
	next     http.Handler
	draining func() bool
}

func (p connectionCloser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.next.ServeHTTP(&closingWriter{w, p.draining}, r)
}

type closingWriter struct {
	http.ResponseWriter
	draining func() bool
}

func (w *closingWriter) WriteHeader(status int) {
	if w.draining() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *closingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

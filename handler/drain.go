package handler

import "net/http"

// parting tells the peer with every reply of a draining instance that its connection is closed after it, so that a proxy has none left
// to send a request on when the instance stops. It decides when the reply begins, not when the request comes: one that has waited for
// a lock since before would otherwise leave its connection open, and it would be closed while the next request is on its way.
type parting struct {
	next     http.Handler
	draining func() bool
}

func (p parting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.next.ServeHTTP(&partingWriter{w, p.draining}, r)
}

type partingWriter struct {
	http.ResponseWriter
	draining func() bool
}

func (w *partingWriter) WriteHeader(status int) {
	if w.draining() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *partingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

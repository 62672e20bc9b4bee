package stack

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
)

// badGateway answers for an instance that did not, in the words of the shipped nginx.conf.
func badGateway(w http.ResponseWriter, r *http.Request, err error) {
	var unreachable *unreachableError
	var slow net.Error
	switch {
	case errors.As(err, &unreachable):
		w.Header().Set("Retry-After", "1")
		problem(w, r, "bad_gateway", http.StatusBadGateway, nothingDone, false)
	case errors.As(err, &slow) && slow.Timeout():
		problem(w, r, "gateway_timeout", http.StatusGatewayTimeout, unknownOutcome, true)
	default:
		problem(w, r, "bad_gateway", http.StatusBadGateway, unknownOutcome, true)
	}
}

const (
	nothingDone    = "no instance could be reached: nothing was done, the request can be sent again"
	unknownOutcome = "an instance got the request and did not answer: whether it was carried out is unknown; " +
		"look for the request id among the orders before you send it again"
)

func problem(w http.ResponseWriter, r *http.Request, name string, status int, detail string, sent bool) {
	id := r.Header.Get("X-Request-Id")
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Request-Id", id)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "/problems/" + name, "title": http.StatusText(status), "status": status, "detail": detail,
		"instance": r.URL.EscapedPath(), "request_id": id, "sent": sent,
	})
}

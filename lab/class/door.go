package class

import (
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody is the largest body of a request, in bytes.
const maxBody = 1 << 10

// guard admits only requests whose Host is one of hosts, and changes only from our own pages. The check of Host
// prevents DNS rebinding. Changes are checked by Origin, because browsers send no Sec-Fetch-Site over plain HTTP to an
// address of the LAN.
func guard(hosts map[string]bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		origin := strings.TrimPrefix(r.Header.Get("Origin"), "http://")
		switch {
		case !hosts[strings.ToLower(r.Host)]:
			refuse(w, http.StatusMisdirectedRequest, "host")
		case r.Method != http.MethodGet && r.Method != http.MethodHead && !strings.EqualFold(origin, r.Host):
			refuse(w, http.StatusForbidden, "origin")
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			next.ServeHTTP(w, r)
		}
	})
}

// hostsOf returns the valid values of Host for a listener: its address, or each address of this computer if it listens
// on all.
func hostsOf(l net.Listener) (hosts map[string]bool, first string) {
	host, port, _ := net.SplitHostPort(l.Addr().String())
	hosts = map[string]bool{}
	add := func(name string) {
		at := net.JoinHostPort(name, port)
		hosts[at] = true
		if first == "" {
			first = at
		}
	}
	ip := net.ParseIP(host)
	if ip != nil && !ip.IsUnspecified() {
		add(host)
	} else {
		addresses, _ := net.InterfaceAddrs() // after an error only the loopback address remains
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
				add(n.IP.String())
			}
		}
		add("127.0.0.1")
	}
	if ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		add("localhost")
	}
	return hosts, first
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// same compares secrets in constant time.
func same(a, b string) bool {
	return len(a) > 0 && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// decode reads a JSON body.
func decode(r *http.Request, into any) bool {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return false
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

// A bucket is a token bucket: rate acts a second, and a burst of the same number.
type bucket struct {
	mu   sync.Mutex
	rate float64
	have float64
	last time.Time
}

func newBucket(rate float64) *bucket { return &bucket{rate: rate, have: rate, last: time.Now()} }

// take reports whether one more act is allowed now.
func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.have = min(b.rate, b.have+b.rate*now.Sub(b.last).Seconds())
	b.last = now
	if b.have < 1 {
		return false
	}
	b.have--
	return true
}

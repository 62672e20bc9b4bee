package outbox_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/stock/orders/outbox"
)

// TestRedisErrors: whatever Redis answers says nothing about the event.
func TestRedisErrors(t *testing.T) {
	set := func(name, value string) {
		t.Helper()
		if err := cache.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cache.Set(t.Context(), "text", "text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for answer, c := range map[string]struct{ stream, setting, value, undo string }{
		"WRONGTYPE":  {"text", "maxmemory", "0", "0"},
		"OOM":        {"events", "maxmemory", "1", "0"},
		"NOREPLICAS": {"events", "min-replicas-to-write", "1", "0"},
	} {
		set(c.setting, c.value)
		err := outbox.Stream(cache, c.stream, 1)(t.Context(), "a.1", nil)
		set(c.setting, c.undo)
		if !errors.Is(err, outbox.ErrAway) || !strings.Contains(err.Error(), answer) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer nobody.Close()
	if err := outbox.Stream(nobody, "events", 1)(t.Context(), "a.1", nil); !errors.Is(err, outbox.ErrAway) {
		t.Error(err)
	}
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestWebhook: what the receiver answers, and that it can verify what it gets. No redirect is followed.
func TestWebhook(t *testing.T) {
	var status, got atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		got.Add(1)
		body, err := io.ReadAll(q.Body)
		kind := q.Header.Get("Content-Type")
		if err != nil || string(body) != `{"a":1}` || kind != "application/json" || q.Method != "POST" {
			t.Errorf("%s %s %s %v", q.Method, q.Header, body, err)
		}
		if id := q.Header.Get("Webhook-Id"); id != "sku~x~7" || !verify(q.Header, body) {
			t.Errorf("not signed as the standard says: %s", q.Header)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(int(status.Load()))
	}))
	defer receiver.Close()
	another := "whsec_" + strings.Repeat("QUJD", 8)
	sink, err := outbox.Webhook(receiver.URL, true, another, secret)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[int64]string{
		200: "sent", 202: "sent", 204: "sent", 301: "refused", 307: "refused", 400: "refused", 404: "refused",
		408: "away", 422: "refused", 425: "away",
		429: "away", 500: "refused", 501: "refused", 502: "away", 503: "away", 504: "away",
	}
	for code, want := range answers {
		status.Store(code)
		err := sink(t.Context(), "sku.x.7", []byte(`{"a":1}`))
		is := "sent"
		if errors.Is(err, outbox.ErrAway) {
			is = "away"
		} else if err != nil {
			is = "refused"
		}
		if is != want {
			t.Errorf("%d: %v, want %s", code, err, want)
		}
	}
	if n := int(got.Load()); n != len(answers) {
		t.Errorf("%d requests for %d events", n, len(answers))
	}
}

// TestWebhookStaysOutside: an internal address is not connected to, whatever name it has, and says nothing about
// events.
func TestWebhookStaysOutside(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		sink, err := outbox.Webhook("https://"+host+":"+port, false, secret)
		if err != nil {
			t.Fatal(err)
		}
		err = sink(t.Context(), "a.1", nil)
		if !errors.Is(err, outbox.ErrAway) || !strings.Contains(err.Error(), "is not a public address") {
			t.Errorf("%s: %v", host, err)
		}
	}
	own, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := l.Accept()
	if err != nil || first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Fatal("a sink has connected", err)
	}
	_ = first.Close()
	for _, c := range []struct {
		address  string
		internal bool
		secrets  []string
	}{
		{"http://example.com", false, []string{secret}},
		{"ftp://example.com", true, []string{secret}},
		{"https://", false, []string{secret}},
		{"https://example.com", false, nil},
		{"https://example.com", false, []string{secret, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}},
		{"https://example.com", false, []string{"whsec_c2hvcnQ="}},
		{"https://example.com", false, []string{"whsec_" + strings.Repeat("QUJD", 22)}},
	} {
		if _, err := outbox.Webhook(c.address, c.internal, c.secrets...); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// verify is what a receiver does, by the standard.
func verify(h http.Header, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if _, notNumber := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64); err != nil || notNumber != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("Webhook-Id") + "." + h.Get("Webhook-Timestamp") + "." + string(body)))
	for s := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		version, text, _ := strings.Cut(s, ",")
		sum, err := base64.StdEncoding.DecodeString(text)
		if err == nil && version == "v1" && hmac.Equal(sum, mac.Sum(nil)) {
			return true
		}
	}
	return false
}

package relay

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/stock/service"
)

// A Webhook posts each event to a URL as https://www.standardwebhooks.com specifies. The headers are webhook-id (the
// event's id, the same for every copy), webhook-timestamp (of this attempt) and webhook-signature ("v1," and the
// HMAC-SHA256 of "id.timestamp.body", one for each secret), and traceparent if there is one. Only a 2xx means that the
// receiver has the event. Redirects count as failures, because only the operator decides where events are sent. Proxies
// in the environment are not used.
//
// A receiver is not available if it does not answer, or if its status does not depend on the event: a wrong address
// (3xx, 401, 403, 404, 405, 410) or a temporary failure (408, 425, 429, 502, 503, 504). Any other status is a refusal
// of the event.
//
// If this process has delivered another event with the same number, the ledger was restored from an older copy. The
// event is delivered, because its id is new to the receiver, and an error is logged.
type Webhook struct {
	url    string
	keys   func() [][]byte
	client *http.Client
	log    *slog.Logger
	trace  func(context.Context) string

	mu   sync.Mutex
	last map[service.SKU]Event // the last delivered event of at most maxLast SKUs
}

// maxLast limits the memory to some 20 MB. A full map is cleared.
const maxLast = 50_000

// WebhookOptions are the options of a Webhook.
type WebhookOptions struct {
	URL     string
	Secrets []string // see ParseSecret; several during a rotation: the receiver needs one of them
	// Keys returns the keys of the current secrets, instead of Secrets. It is called for each event.
	Keys func() [][]byte
	// TLS returns the configuration of a connection to a server; default: the one of package tls.
	TLS func(addr string) *tls.Config
	// AllowInternal permits addresses that only this network can reach, such as 127.0.0.1 or 10.0.0.1. The address is
	// checked for each connection, because the address of a host name may change.
	AllowInternal bool
	Timeout       time.Duration // of one attempt, from the connection to the end of the reply; default 15 s
	Log           *slog.Logger  // default: none
	// Traceparent returns the header traceparent for a delivery with this ctx. If it is nil or returns "", the header
	// is that of the event, if there is one.
	Traceparent func(context.Context) string
}

const secretPrefix = "whsec_"

// ParseSecret returns the key of a secret: "whsec_" and base64 of 24 to 64 bytes.
func ParseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("is not whsec_ and base64 of 24 to 64 bytes")
	}
	return key, nil
}

// ParseSecrets returns the keys of secrets. Without a secret, receivers could not tell who sends.
func ParseSecrets(texts []string) (keys [][]byte, err error) {
	if len(texts) == 0 {
		return nil, errors.New("webhook: it needs a secret, or receivers could not tell who sends")
	}
	for i, text := range texts {
		key, err := ParseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("webhook: secret %d %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Reasons why a URL is refused.
var (
	ErrURL     = errors.New("is not http:// or https:// and a host")
	ErrURLUser = errors.New("must have no user or password: the signature says who sends")
)

// CheckURL returns ErrURL or ErrURLUser if text cannot be the URL of a webhook.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return ErrURL
	case u.User != nil:
		return ErrURLUser
	}
	return nil
}

// NewWebhook returns a sink. It does not connect. The caller must close it.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	if err := CheckURL(o.URL); err != nil {
		return nil, fmt.Errorf("webhook: URL %w", err)
	}
	if o.Keys == nil {
		keys, err := ParseSecrets(o.Secrets)
		if err != nil {
			return nil, err
		}
		o.Keys = func() [][]byte { return keys }
	}
	w := &Webhook{
		url: o.URL, keys: o.Keys, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		last: make(map[service.SKU]Event), trace: o.Traceparent,
	}
	if w.trace == nil {
		w.trace = func(context.Context) string { return "" }
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if !o.AllowInternal {
		dialer.Control = refuseInternal
	}
	transport := &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16,
		IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	if o.TLS != nil {
		transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialer.Timeout+transport.TLSHandshakeTimeout)
			defer cancel()
			return (&tls.Dialer{NetDialer: dialer, Config: o.TLS(addr)}).DialContext(ctx, network, addr)
		}
	}
	w.client = &http.Client{
		Timeout:       cmp.Or(o.Timeout, 15*time.Second),
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w, nil
}

// Close closes idle connections.
func (w *Webhook) Close() error {
	w.client.CloseIdleConnections()
	return nil
}

// Deliver sends one request.
func (w *Webhook) Deliver(ctx context.Context, e Event) error {
	body, err := e.body()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "stock-relay")
	req.Header["webhook-id"] = []string{e.ID}
	req.Header["webhook-timestamp"] = []string{stamp}
	req.Header["webhook-signature"] = []string{w.sign(e.ID, stamp, body)}
	if parent := cmp.Or(w.trace(ctx), e.Traceparent); parent != "" {
		req.Header.Set("traceparent", parent)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		// The error of the client contains the URL, which may contain a token.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return unavailable(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	if err := judge(resp); err != nil {
		return err
	}
	w.note(e)
	return nil
}

// note remembers a delivered event, and logs an error if the event shows that the ledger was restored from an older
// copy.
func (w *Webhook) note(e Event) {
	w.mu.Lock()
	last, known := w.last[e.Data.SKU]
	repeat := known && e.Data.Number <= last.Data.Number
	other := repeat && e.ID != last.ID && (e.Data.Number == last.Data.Number || e.At.After(last.At))
	if !repeat || other {
		if !known && len(w.last) >= maxLast {
			clear(w.last)
		}
		w.last[e.Data.SKU] = e
	}
	w.mu.Unlock()
	if other {
		w.log.Error("the ledger has gone back to an older copy: an event has a number that was delivered before",
			"sku", e.Data.SKU, "number", e.Data.Number, "id", e.ID, "delivered", last.ID)
	}
}

func (w *Webhook) sign(id, stamp string, body []byte) string {
	keys := w.keys()
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// notTheEvent has the statuses that do not depend on the event.
var notTheEvent = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone,
	http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// judge returns Deliver's error for a reply.
func judge(resp *http.Response) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("the receiver answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.StatusCode/100 != 3 && !slices.Contains(notTheEvent, resp.StatusCode) {
		return err
	}
	if after := retryAfter(resp.Header, time.Now()); after > 0 {
		return &LaterError{After: after, Err: err}
	}
	return unavailable(err)
}

// retryAfter returns the pause in the header Retry-After, which contains seconds or a date; 0: no pause. A date is
// compared with the header Date, which has the same clock, or with now if there is no header Date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if there, err := http.ParseTime(h.Get("Date")); err == nil {
		now = there
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}

var errInternal = errors.New("the URL leads to an internal address, which relay.webhook_internal does not allow")

// refuseInternal is called before each connection, with the address that the host name was resolved to.
func refuseInternal(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !public(at.Addr()) {
		return errInternal
	}
	return nil
}

// public reports whether a is an address of the public Internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, text := range [...]string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4",
		// These IPv6 addresses contain an IPv4 address, which is not checked: NAT64, 6to4, Teredo, IPv4-compatible.
		"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "2001:db8::/32",
	} {
		if netip.MustParsePrefix(text).Contains(a) {
			return false
		}
	}
	return true
}

package outbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Webhook posts events to an https URL, signed as https://www.standardwebhooks.com says, once with each secret:
// "whsec_" and 24 to 64 bytes in base64. The last one is the old one while a receiver changes to a new one.
//
// It follows no redirect, uses no proxy, and connects to public addresses only, which is checked for every connection,
// because a name can have another address later. If internal is true, it connects to any address, and http will do.
func Webhook(address string, internal bool, secrets ...string) (Sink, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !internal) {
		return nil, errors.New("a webhook needs an https URL; http will do for internal addresses")
	}
	if len(secrets) == 0 {
		return nil, errors.New("a webhook needs a secret")
	}
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		text, prefixed := strings.CutPrefix(s, "whsec_")
		keys[i], err = base64.StdEncoding.DecodeString(text)
		if size := len(keys[i]); err != nil || !prefixed || size < 24 || size > 64 {
			return nil, fmt.Errorf(`secret %d of the webhook is not "whsec_" and 24 to 64 bytes in base64`, i+1)
		}
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if !internal {
		dialer.Control = refuseInternal
	}
	client := &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 32,
			IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, event string, body []byte) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
		if err != nil {
			return err
		}
		sign(q.Header, event, body, time.Now(), keys)
		a, err := client.Do(q)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrAway, err)
		}
		_, _ = io.CopyN(io.Discard, a.Body, 4096) // so that the connection can be used again
		_ = a.Body.Close()
		switch a.StatusCode {
		case 408, 425, 429, 502, 503, 504:
			return fmt.Errorf("%w: it answered %s", ErrAway, a.Status)
		}
		if a.StatusCode/100 != 2 {
			return fmt.Errorf("the receiver answered %s", a.Status)
		}
		return nil
	}, nil
}

// sign sets the headers. The standard wants an id without dots, because they end it in what is signed. No SKU has a
// "~".
func sign(h http.Header, event string, body []byte, now time.Time, keys [][]byte) {
	id, at := strings.ReplaceAll(event, ".", "~"), strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set("Content-Type", "application/json")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
}

// refuseInternal is called with the address that a name had.
func refuseInternal(_, address string, _ syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !isPublic(at.Addr()) {
		return fmt.Errorf("%s is not a public address", address)
	}
	return nil
}

// isPublic goes by the registries of special addresses of IANA. Of IPv6, only 2000::/3 is given out.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	within := func(p string) bool { return netip.MustParsePrefix(p).Contains(a) }
	if a.Is4() {
		return !slices.ContainsFunc([]string{
			"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
			"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
			"203.0.113.0/24", "224.0.0.0/3",
		}, within)
	}
	// Teredo and others, documentation, 6to4, which has an IPv4 address in it, documentation.
	special := []string{"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"}
	return within("2000::/3") && !slices.ContainsFunc(special, within)
}

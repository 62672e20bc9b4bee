package relay_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/app/credentials"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/service/relay"
)

const (
	oldSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	newSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

func newWebhook(t *testing.T, url string, secrets ...string) *relay.Webhook {
	t.Helper()
	w, err := relay.NewWebhook(relay.WebhookOptions{
		URL: url, Secrets: secrets, AllowInternal: true, Timeout: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// listen starts a receiver.
func listen(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// verify checks a request as the specification says, written without a look at the sender: one of the signatures must
// be that of the secret, and the time must be near.
func verify(secret string, h http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
	if err != nil {
		return err
	}
	stamp, err := strconv.Atoi(h.Get("webhook-timestamp"))
	if err != nil {
		return err
	}
	if age := time.Now().Unix() - int64(stamp); age > 300 || age < -300 {
		return errors.New("too old, or of the future")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("webhook-id")))
	mac.Write([]byte{'.'})
	mac.Write([]byte(h.Get("webhook-timestamp")))
	mac.Write([]byte{'.'})
	mac.Write(body)
	for field := range strings.SplitSeq(h.Get("webhook-signature"), " ") {
		version, signature, _ := strings.Cut(field, ",")
		given, err := base64.StdEncoding.DecodeString(signature)
		if version == "v1" && err == nil && hmac.Equal(given, mac.Sum(nil)) {
			return nil
		}
	}
	return errors.New("no signature fits")
}

func TestTheSignatureOfAWebhook(t *testing.T) {
	t.Parallel()
	type request struct {
		http.Header
		body []byte
	}
	got := make(chan request, 1)
	url := listen(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, body}
	})
	deliver(t, newWebhook(t, url, newSecret, oldSecret), event("book.1", 17))
	r := <-got
	for _, secret := range []string{oldSecret, newSecret} {
		if err := verify(secret, r.Header, r.body); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
	}
	other := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24))
	if verify(other, r.Header, r.body) == nil {
		t.Error("the signature fits any secret")
	}
	if verify(newSecret, r.Header, append(r.body, ' ')) == nil {
		t.Error("the signature fits any body")
	}
	if kind, from := r.Get("Content-Type"), r.Get("User-Agent"); kind != "application/json" || from != "stock-relay" {
		t.Errorf("Content-Type %q, User-Agent %q", kind, from)
	}
	for _, name := range []string{"webhook-id", "webhook-timestamp"} {
		changed := r.Header.Clone()
		changed.Set(name, changed.Get(name)+"1")
		if verify(newSecret, changed, r.body) == nil {
			t.Error("the signature fits any", name)
		}
	}
	if id := r.Get("webhook-id"); id != event("book.1", 17).ID || r.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", r.Header)
	}
	var e relay.Event
	if err := json.Unmarshal(r.body, &e); err != nil || e != event("book.1", 17) {
		t.Errorf("body %s: %v", r.body, err)
	}
}

func TestWhatAStatusMeans(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	url := listen(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	w := newWebhook(t, url, newSecret)
	for want, list := range map[string][]int{
		"delivered":   {200, 201, 202, 204, 299},
		"unavailable": {300, 304, 401, 403, 404, 405, 408, 410, 425, 429, 502, 503, 504},
		"refused":     {400, 409, 413, 418, 422, 500, 501},
	} {
		for _, code := range list {
			status.Store(int64(code))
			got := "refused"
			switch err := w.Deliver(t.Context(), event("a", 1)); {
			case err == nil:
				got = "delivered"
			case errors.Is(err, relay.ErrUnavailable):
				got = "unavailable"
			}
			if got != want {
				t.Errorf("%d: %s, want %s", code, got, want)
			}
		}
	}
}

func TestAWebhookFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	elsewhere := listen(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	for _, code := range []int{301, 302, 303, 307, 308} {
		url := listen(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, code) })
		if err := newWebhook(t, url, newSecret).Deliver(t.Context(), event("a", 1)); err == nil {
			t.Errorf("%d counts as delivered", code)
		}
	}
	if asked.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

func TestAWebhookGoesToNoInternalAddress(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	local := listen(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(local, "http://"))
	urls := []string{local, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port}
	for _, host := range []string{
		"0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "[::1]",
		"[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "224.0.0.1", "255.255.255.255",
	} {
		urls = append(urls, "http://"+host+":"+port)
	}
	for _, url := range urls {
		w, err := relay.NewWebhook(relay.WebhookOptions{URL: url, Secrets: []string{newSecret}})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Deliver(t.Context(), event("a", 1))
		if err == nil || !strings.Contains(err.Error(), "internal address") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if asked.Load() > 0 {
		t.Error("it was asked")
	}
}

// A webhook over TLS with files of its own believes their CA alone, presents its certificate, and still goes to no
// internal address.
func TestAWebhookOverTLS(t *testing.T) {
	ca, clients := stacktest.NewCA(t, "ca"), stacktest.NewCA(t, "clients")
	pair, member := ca.Issue(t, "127.0.0.1"), clients.Issue(t, "relay")
	log := slog.New(slog.DiscardHandler)
	config, err := credentials.Server(credentials.Files{CA: clients.File, Cert: pair.Cert, Key: pair.Key}, log)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
	}))
	receiver.Config.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelInfo)
	receiver.TLS = config
	receiver.StartTLS()
	defer receiver.Close()
	for _, row := range []struct {
		files    credentials.Files
		internal bool
		want     string // part of the error; "": delivered
	}{
		{credentials.Files{CA: ca.File, Cert: member.Cert, Key: member.Key}, true, ""},
		{credentials.Files{CA: ca.File}, true, "certificate required"},
		{credentials.Files{CA: clients.File, Cert: member.Cert, Key: member.Key}, true, "unknown authority"},
		{credentials.Files{CA: ca.File, Cert: member.Cert, Key: member.Key}, false, "internal address"},
	} {
		client, err := credentials.New(row.files, log)
		if err != nil {
			t.Fatal(err)
		}
		w, err := relay.NewWebhook(relay.WebhookOptions{
			URL: receiver.URL, Secrets: []string{newSecret}, AllowInternal: row.internal, TLS: client.Client,
		})
		if err != nil {
			t.Fatal(err)
		}
		before := asked.Load()
		err = w.Deliver(t.Context(), relay.Event{})
		_ = w.Close()
		if row.want == "" && (err != nil || asked.Load() == before) {
			t.Errorf("%+v: %v", row.files, err)
		}
		if row.want != "" && !strings.Contains(fmt.Sprint(err), row.want) || row.want != "" && asked.Load() != before {
			t.Errorf("%+v: %v, want %s", row.files, err, row.want)
		}
	}
}

// Secrets that change are used for the next event.
func TestSecretsOfAWebhookChange(t *testing.T) {
	var got atomic.Value
	url := listen(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, secret := range []string{oldSecret, newSecret} {
			if verify(secret, r.Header, body) == nil {
				got.Store(secret)
			}
		}
	})
	var secrets atomic.Value
	w, err := relay.NewWebhook(relay.WebhookOptions{URL: url, AllowInternal: true, Keys: func() [][]byte {
		keys, _ := relay.ParseSecrets([]string{secrets.Load().(string)})
		return keys
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, secret := range []string{oldSecret, newSecret} {
		secrets.Store(secret)
		if err := w.Deliver(t.Context(), relay.Event{}); err != nil || got.Load() != secret {
			t.Errorf("with %s: signed with %v, %v", secret, got.Load(), err)
		}
	}
}

func TestAWebhookThatHangs(t *testing.T) {
	t.Parallel()
	let := make(chan struct{})
	url := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-let // in the middle of the body
	})
	defer close(let)
	err := newWebhook(t, url, newSecret).Deliver(t.Context(), event("a", 1))
	if err != nil {
		t.Errorf("a 200 whose body hangs: %v, want delivered: the status has come", err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	w := newWebhook(t, "http://"+silent.Addr().String()+"/?token=secret", newSecret)
	err = w.Deliver(t.Context(), event("a", 1))
	if !errors.Is(err, relay.ErrUnavailable) || strings.Contains(err.Error(), "token") {
		t.Errorf("silent: %v, want unavailable, without the URL", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Deliver(ctx, event("a", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

func TestWhatAWebhookMustNotBe(t *testing.T) {
	t.Parallel()
	for _, o := range []relay.WebhookOptions{
		{URL: "", Secrets: []string{newSecret}},
		{URL: "ftp://example.com", Secrets: []string{newSecret}},
		{URL: "https://", Secrets: []string{newSecret}},
		{URL: "https://user:hunter2@example.com", Secrets: []string{newSecret}},
		{URL: "https://example.com"},
		{URL: "https://example.com", Secrets: []string{"whsec_c2hvcnQ="}},
		{URL: "https://example.com", Secrets: []string{strings.TrimPrefix(newSecret, "whsec_")}},
		{URL: "https://example.com", Secrets: []string{newSecret, "whsec_" + strings.Repeat("A", 88)}},
	} {
		if _, err := relay.NewWebhook(o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A receiver that says 429 and when it wants to be asked again is not asked before, and gets every event in order. Its
// failures, and a break of the connection after it has got the event, make repeats with the same id.
func TestAWebhookIsRetried(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	var requests, early atomic.Int64
	var until atomic.Int64
	var ids []string // the first copies
	url := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if time.Now().UnixMilli() < until.Load() {
			early.Add(1)
		}
		id := r.Header.Get("webhook-id")
		if id = id[:strings.LastIndex(id, "/")]; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		switch n := requests.Add(1); {
		case n == 3:
			until.Store(time.Now().Add(950 * time.Millisecond).UnixMilli())
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case n%4 == 0:
			w.WriteHeader(http.StatusInternalServerError)
		case n%7 == 0:
			panic(http.ErrAbortHandler)
		}
	})
	s.receive(t, "a", 20)
	start(t, quick(s, newWebhook(t, url, newSecret), newLatch()))
	emptied(t, s)
	var want []string
	for _, n := range numbers(20) {
		want = append(want, fmt.Sprint("a/", n))
	}
	if !slices.Equal(ids, want) {
		t.Errorf("first copies: %v", ids)
	}
	if n := early.Load(); n > 0 {
		t.Errorf("asked %d times before the time that it gave", n)
	}
	if n := requests.Load(); n < 25 {
		t.Errorf("%d requests: too few failures for this test", n)
	}
	stacktest.Eventually(t, time.Second, "nothing parked", func() (bool, string) {
		letters, err := s.Parked(t.Context(), "", 10)
		return len(letters) == 0 && err == nil, fmt.Sprint(letters, err)
	})
}

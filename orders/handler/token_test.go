package handler_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/stock/orders/api"
	"example.com/stock/orders/handler"
)

const audience = "orders"

// An issuer answers without a network, so that time can be the test's.
type issuer struct {
	name, calls string // its name, and what it calls itself

	mu    sync.Mutex
	set   string
	down  bool
	asked int
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	w := httptest.NewRecorder()
	switch {
	case i.down:
		return nil, errors.New("down")
	case r.URL.String() == strings.TrimSuffix(i.name, "/")+"/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": "https://id.example/keys"}`, i.calls)
	case r.URL.String() == "https://id.example/keys":
		io.WriteString(w, i.set)
	case r.URL.Path == "/away":
		http.Redirect(w, r, "https://other.example/keys", http.StatusFound)
	case r.URL.Path == "/large":
		io.WriteString(w, `{"keys":[`+strings.Repeat(" ", 2<<20)+`]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	a := w.Result()
	a.Request = r
	return a, nil
}

func (i *issuer) publish(members ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set = `{"keys":[` + strings.Join(members, ",") + `]}`
}

func (i *issuer) times() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// keyed are the keys that the issuers of the tests have.
var keyed = sync.OnceValue(func() (k struct {
	rsa, other, weak *rsa.PrivateKey
	ec               *ecdsa.PrivateKey
	ed               ed25519.PrivateKey
},
) {
	var bad [5]error
	k.rsa, bad[0] = rsa.GenerateKey(rand.Reader, 2048)
	k.other, bad[1] = rsa.GenerateKey(rand.Reader, 2048)
	k.ec, bad[2] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, k.ed, bad[3] = ed25519.GenerateKey(rand.Reader)
	k.weak, bad[4] = rsa.GenerateKey(rand.Reader, 1024)
	if err := errors.Join(bad[:]...); err != nil {
		panic(err)
	}
	return k
})

// member returns a public key as a member of a set.
func member(t testing.TB, kid string, private crypto.Signer) string {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	m := map[string]string{"kid": kid, "use": "sig"}
	switch public := private.Public().(type) {
	case *rsa.PublicKey:
		maps.Copy(m, map[string]string{"kty": "RSA", "n": b64(public.N.Bytes()), "e": "AQAB"})
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(m, map[string]string{"kty": "EC", "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:])})
	case ed25519.PublicKey:
		maps.Copy(m, map[string]string{"kty": "OKP", "crv": "Ed25519", "x": b64(public)})
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// claims are those of a valid token, changed.
func claims(change map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{
		"iss": "https://id.example/", "aud": audience, "sub": "ann",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range change {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

func sign(t testing.TB, method jwt.SigningMethod, key any, header map[string]any, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	maps.Copy(token.Header, header)
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func kid(id any) map[string]any { return map[string]any{"kid": id} }

// began returns a checker that has tried to read the keys once.
func began(t *testing.T, i *issuer, change func(*handler.TokenOptions)) *handler.Tokens {
	t.Helper()
	o := handler.TokenOptions{Issuer: i.name, Audience: audience, Transport: i}
	if change != nil {
		change(&o)
	}
	tokens, err := handler.NewTokens(o)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx := t.Context()
	running.Go(func() { tokens.Run(ctx) })
	synctest.Wait()
	return tokens
}

func newIssuer() *issuer { return &issuer{name: "https://id.example/", calls: "https://id.example/"} }

// identified returns the customer of a token; "": the token is not valid.
func identified(t *testing.T, tokens *handler.Tokens, token string) string {
	t.Helper()
	who, err := tokens.Identify(t.Context(), token)
	if err != nil && !errors.Is(err, handler.ErrToken) {
		t.Errorf("%v, want ErrToken", err)
	}
	return who.Customer
}

// TestForged: every token that was not made for this service by its issuer is refused.
func TestForged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, i := keyed(), newIssuer()
		broken := strings.Replace(member(t, "r", k.rsa), "{", `{"x5c":["x"],`, 1) // certificates do not count
		secret := strings.Replace(member(t, "s", k.other), `"sig"`, `"enc"`, 1)
		i.publish(broken, secret, member(t, "w", k.weak), member(t, "e", k.ec), member(t, "d", k.ed))
		tokens := began(t, i, nil)
		der, err := x509.MarshalPKIXPublicKey(k.rsa.Public())
		if err != nil {
			t.Fatal(err)
		}
		public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		rs := func(header map[string]any, change map[string]any) string {
			return sign(t, jwt.SigningMethodRS256, k.rsa, header, claims(change))
		}
		good := rs(kid("r"), nil)
		for name, token := range map[string]string{
			"RS256": good, "PS256": sign(t, jwt.SigningMethodPS256, k.rsa, kid("r"), claims(nil)),
			"ES256": sign(t, jwt.SigningMethodES256, k.ec, kid("e"), claims(nil)), "no kid": rs(nil, nil),
			"EdDSA":               sign(t, jwt.SigningMethodEdDSA, k.ed, kid("d"), claims(nil)),
			"a clock 20 s behind": rs(kid("r"), map[string]any{"nbf": time.Now().Add(20 * time.Second).Unix()}),
			"several audiences":   rs(kid("r"), map[string]any{"aud": []string{"x", audience}}),
		} {
			if identified(t, tokens, token) != "ann" {
				t.Errorf("%s is refused", name)
			}
		}
		parts := strings.Split(good, ".")
		bob := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"bob","exp":9999999999}`))
		bad := map[string]string{
			"empty": "", "text": "x", "two parts": parts[0] + "." + parts[1],
			"no signature":          parts[0] + "." + parts[1] + ".",
			"alg none":              sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, claims(nil)),
			"HS256 with public key": sign(t, jwt.SigningMethodHS256, public, kid("r"), claims(nil)),
			"HS256 with public DER": sign(t, jwt.SigningMethodHS256, der, kid("r"), claims(nil)),
			"HS256 with nothing":    sign(t, jwt.SigningMethodHS256, []byte{}, kid("../../dev/null"), claims(nil)),
			"another key":           sign(t, jwt.SigningMethodRS256, k.other, kid("r"), claims(nil)),
			"key for encryption":    sign(t, jwt.SigningMethodRS256, k.other, kid("s"), claims(nil)),
			"weak key":              sign(t, jwt.SigningMethodRS256, k.weak, kid("w"), claims(nil)),
			"own key in the header": sign(t, jwt.SigningMethodRS256, k.other, map[string]any{
				"jwk": json.RawMessage(member(t, "r", k.other)), "jku": "https://evil.example/keys",
			}, claims(nil)),
			"claims of another": parts[0] + "." + bob + "." + parts[2],
			"crit":              rs(map[string]any{"kid": "r", "crit": []string{"b64"}, "b64": false}, nil),
		}
		for _, id := range []any{"e", "../r", 1, []string{"r"}, nil} {
			bad[fmt.Sprintf("kid %v", id)] = rs(kid(id), nil)
		}
		now := time.Now().Unix()
		for name, change := range map[string]map[string]any{
			"expired": {"exp": now - 31}, "never expires": {"exp": nil}, "exp is text": {"exp": "9999999999"},
			"not yet": {"nbf": now + 60}, "of the future": {"iat": now + 60},
			"another audience": {"aud": "orders2"}, "no audience": {"aud": nil},
			"another issuer": {"iss": "https://id.example"}, "no issuer": {"iss": nil},
			"no sub": {"sub": nil}, "sub in capitals": {"sub": nil, "SUB": "bob"}, "sub is a number": {"sub": 1},
			"empty sub": {"sub": ""}, "sub with a line": {"sub": "ann\nbob"}, "sub with a zero": {"sub": "a\x00"},
			"long sub": {"sub": strings.Repeat("é", 128)}, "sub no UTF-8": {"sub": "\xff"},
			"padded sub": {"sub": "ann "}, // MySQL compares without spaces at the end
			"oversized":  {"x": strings.Repeat("x", 8<<10)},
		} {
			bad[name] = rs(kid("r"), change)
		}
		for name, token := range bad {
			if who := identified(t, tokens, token); who != "" {
				t.Errorf("%s is valid, of %q", name, who)
			}
		}
		for _, sub := range []string{
			"auth0|62f0c1", "a@b.example", "AbC+/w==", "山田 太郎", " x", strings.Repeat("x", 255), "..", "%2e", "'; --",
		} {
			if who := identified(t, tokens, rs(kid("r"), map[string]any{"sub": sub})); who != sub {
				t.Errorf("sub %q: %q", sub, who)
			}
		}
	})
}

// TestOddKeys: a member of a set that cannot be read does not disable the others, and does not keep removed ones valid.
func TestOddKeys(t *testing.T) {
	k := keyed()
	odd := map[string]string{
		"unknown kind":   `{"kty":"AKP","kid":"r","alg":"ML-DSA-44"}`,
		"x is an object": `{"kty":"EC","kid":"x","crv":"P-256","x":{}}`,
		"no object":      `7`, "null": `null`,
		"not on the curve":       `{"kty":"EC","kid":"x","crv":"P-256","x":"AQ","y":"AQ"}`,
		"kid is a number":        `{"kty":"RSA","kid":1,"n":"AQ","e":"AQAB"}`,
		"a secret":               `{"kty":"oct","kid":"r","k":"c2VjcmV0"}`,
		"small":                  `{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB"}`,
		"same kid, another kind": member(t, "r", k.ec),
		"same kid, same kind":    member(t, "r", k.other),
		"for encryption":         strings.Replace(member(t, "r", k.other), `"sig"`, `"enc"`, 1),
		"a broken certificate":   `{"kty":"RSA","kid":"y","n":"AQAB","e":"AQAB","x5c":["x"]}`,
	}
	for name, member0 := range odd {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newIssuer()
				i.publish(member0, member(t, "r", k.rsa), member(t, "d", k.ed))
				tokens := began(t, i, nil)
				first := sign(t, jwt.SigningMethodRS256, k.rsa, kid("r"), claims(nil))
				second := sign(t, jwt.SigningMethodEdDSA, k.ed, kid("d"), claims(nil))
				if identified(t, tokens, first) != "ann" || identified(t, tokens, second) != "ann" {
					t.Error("the others do not count")
				}
				i.publish(member0, member(t, "r", k.rsa))
				time.Sleep(5*time.Minute + time.Second)
				if identified(t, tokens, first) != "ann" || identified(t, tokens, second) != "" {
					t.Error("a key that was removed is valid, or one that was not removed is not")
				}
			})
		})
	}
}

// TestRotation: a new key counts with its first token. Tokens with invented ids do not make the issuer work.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, i := keyed(), newIssuer()
		i.publish(member(t, "1", k.rsa))
		tokens := began(t, i, nil)
		time.Sleep(time.Minute)
		i.publish(member(t, "2", k.other))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if identified(t, tokens, sign(t, jwt.SigningMethodRS256, k.other, kid("2"), claims(nil))) != "ann" {
					t.Error("the new key does not count")
				}
			})
		}
		all.Wait()
		before := i.times()
		if before != 4 { // where the keys are, and the keys, twice
			t.Errorf("the issuer was asked %d times", before)
		}
		for n := range 1000 {
			identified(t, tokens, sign(t, jwt.SigningMethodHS256, []byte("x"), kid(fmt.Sprint(n)), claims(nil)))
		}
		unknown := sign(t, jwt.SigningMethodEdDSA, k.ed, kid("3"), claims(nil))
		for range 1000 {
			identified(t, tokens, unknown)
		}
		if n := i.times() - before; n != 0 {
			t.Errorf("the issuer was asked %d times within seconds", n)
		}
		i.mu.Lock()
		i.down = true
		i.mu.Unlock()
		time.Sleep(24 * time.Hour)
		late := sign(t, jwt.SigningMethodRS256, k.other, kid("2"), claims(nil))
		if identified(t, tokens, late) != "ann" || tokens.Ready() != nil {
			t.Error("an issuer that is away takes away its keys")
		}
		i.mu.Lock()
		i.down = false
		i.mu.Unlock()
		i.publish()
		time.Sleep(5*time.Minute + time.Second)
		if _, err := tokens.Identify(t.Context(), late); !errors.Is(err, handler.ErrKeys) {
			t.Errorf("an issuer without keys: %v", err)
		}
	})
}

// TestNoKeys: while there is no key, nobody is told that the token is wrong.
func TestNoKeys(t *testing.T) {
	k := keyed()
	for _, c := range []struct {
		name, calls, url, want string
		down                   bool
	}{
		{name: "down", calls: "https://id.example/", down: true, want: "down"},
		{
			name: "another slash", calls: "https://id.example",
			want: `"https://id.example/", and it calls itself "https://id.example"`,
		},
		{name: "redirected", url: "https://id.example/away", want: "from https://id.example/away to https://other"},
		{name: "large", url: "https://id.example/large", want: "more than 1048576 bytes"},
		{name: "none", url: "https://id.example/none", want: "status 404"},
		{name: "no set", url: "https://id.example/.well-known/openid-configuration", want: "no set of keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newIssuer()
				i.calls, i.down = c.calls, c.down
				i.publish(member(t, "r", k.rsa))
				tokens := began(t, i, func(o *handler.TokenOptions) { o.KeysURL = c.url })
				token := sign(t, jwt.SigningMethodRS256, k.rsa, kid("r"), claims(nil))
				_, err := tokens.Identify(t.Context(), token)
				if !errors.Is(err, handler.ErrKeys) || !errors.Is(tokens.Ready(), handler.ErrKeys) ||
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, and ready: %v", err, tokens.Ready())
				}
				i.mu.Lock()
				i.down, i.calls = false, i.name
				i.mu.Unlock()
				time.Sleep(6 * time.Second)
				if c.url == "" && (identified(t, tokens, token) != "ann" || tokens.Ready() != nil) {
					t.Error("it does not recover")
				}
			})
		})
	}
}

// secretly returns a checker of tokens that are signed with a secret, and what makes them.
func secretly(t *testing.T) (*handler.Tokens, func(sub string, more map[string]any) string) {
	t.Helper()
	secret := strings.Repeat("s", handler.MinSecret)
	tokens, err := handler.NewTokens(handler.TokenOptions{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return tokens, func(sub string, more map[string]any) string {
		change := map[string]any{"sub": sub, "iss": nil, "aud": nil}
		maps.Copy(change, more)
		return sign(t, jwt.SigningMethodHS256, []byte(secret), nil, claims(change))
	}
}

func TestSecret(t *testing.T) {
	tokens, token := secretly(t)
	if who := identified(t, tokens, token("bob", nil)); who != "bob" || tokens.Ready() != nil {
		t.Errorf("%q, %v", who, tokens.Ready())
	}
	s32, x32 := strings.Repeat("s", 32), strings.Repeat("x", 32)
	if identified(t, tokens, sign(t, jwt.SigningMethodHS512, []byte(s32), nil, claims(nil))) != "" ||
		identified(t, tokens, sign(t, jwt.SigningMethodHS256, []byte(x32), nil, claims(nil))) != "" {
		t.Error("a forged one is valid")
	}
	for _, o := range []handler.TokenOptions{
		{}, {Secret: s32[1:]}, {Secret: s32, Issuer: "https://a", Audience: "b"}, {Issuer: "https://a"},
	} {
		if _, err := handler.NewTokens(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestDoors: every operation of the document that needs a token is closed without one, and without its scopes.
func TestDoors(t *testing.T) {
	tokens, token := secretly(t)
	service, err := handler.New(handler.Options{Store: store, Who: tokens, Instance: "test", Most: 100, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	knock := func(method, path, authorization string) (int, api.Problem) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{"))
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		service.ServeHTTP(w, r)
		var p api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%s %s: %s", method, path, w.Body)
		}
		return w.Code, p
	}
	for path, item := range doc.Paths.Map() {
		at := strings.NewReplacer("{sku}", "a", "{id}", strings.Repeat("0", 36)).Replace(path)
		for method, o := range item.Operations() {
			security := doc.Security
			if o.Security != nil {
				security = *o.Security
			}
			if len(security) == 0 {
				if status, p := knock(method, at, ""); status == 401 {
					t.Errorf("%s %s is open, and is answered with %d %+v", method, path, status, p)
				}
				continue
			}
			for _, authorization := range []string{"", "Bearer", "Bearer ", "Basic YTpi", token("a", nil)} {
				if status, p := knock(method, at, authorization); status != 401 || p.Type != "/problems/unauthorized" {
					t.Errorf("%s %s with %.12q: %d %+v", method, path, authorization, status, p)
				}
			}
			scopes := security[0]["oidc"]
			status, p := knock(method, at, "Bearer "+token("ann", map[string]any{"scope": "other", "scp": "stock"}))
			if len(scopes) > 0 && (status != 403 || !slices.Equal(p.Scopes, scopes)) {
				t.Errorf("%s %s without its scopes: %d %+v", method, path, status, p)
			}
			if len(scopes) == 0 && (status == 401 || status == 403) {
				t.Errorf("%s %s needs no scope: %d %+v", method, path, status, p)
			}
			for _, claim := range []map[string]any{
				{"scope": strings.Join(scopes, " ")}, {"scp": strings.Join(scopes, " ")}, {"scp": scopes, "scope": "x"},
			} {
				if status, p := knock(method, at, "Bearer "+token("ann", claim)); status == 401 || status == 403 {
					t.Errorf("%s %s with %v: %d %+v", method, path, claim, status, p)
				}
			}
		}
	}
}

// TestLogged: no line of the log says who the customer is, or has the token.
func TestLogged(t *testing.T) {
	var log bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&log, nil)))
	defer slog.SetDefault(was)
	tokens, token := secretly(t)
	service, err := handler.New(handler.Options{
		Store: store, Who: tokens, Instance: "test", Most: 100, Limits: limits, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	bearer := token("secret-ann", nil)
	for _, authorization := range []string{"Bearer " + bearer, "Bearer " + bearer + "x"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/orders?cursor=secret", nil)
		r.Header.Set("Authorization", authorization)
		service.ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || strings.Contains(log.String(), "secret") || strings.Contains(log.String(), bearer[:40]) ||
		!strings.Contains(lines[0], `"problem":"invalid_cursor"`) ||
		!strings.Contains(lines[1], `"problem":"unauthorized"`) {
		t.Error(log.String())
	}
}

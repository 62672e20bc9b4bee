package access_test

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"example.com/stock/handler/access"
)

// A token of each algorithm proves its subject, and opens what its scopes say and no more.
func TestAValidToken(t *testing.T) {
	o := &origin{text: jwks("ed", "ec", "rs")}
	d, keys := doorOf(t, o.read)
	if err := keys.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ed", "ec", "rs"} {
		for range 2 { // verified, then remembered
			c, err := ask(d, sign(t, name, good()))
			if err != nil || c.Subject != "ann" || !c.May(access.OrdersOwn) || !c.May(access.StockRead) {
				t.Fatalf("%s: %+v, %v", name, c, err)
			}
			for _, s := range []access.Scope{
				access.OrdersAny, access.StockWrite, access.RelayWrite, access.LocksEvict, access.Lab, "other",
			} {
				if c.May(s) {
					t.Errorf("%s: it opens %s", name, s)
				}
			}
			if !c.May(access.OrdersAny, access.OrdersOwn) {
				t.Errorf("%s: one of two scopes is not enough", name)
			}
		}
	}
	for _, scopes := range []jwt.MapClaims{
		with("scope", []string{"stock:write"}), with("scope", "stock:write"),
	} {
		if c, err := ask(d, sign(t, "ed", scopes)); err != nil || !c.May(access.StockWrite) || c.May(access.StockRead) {
			t.Errorf("%v: %+v, %v", scopes, c, err)
		}
	}
	claims := with("scope", nil)
	claims["scp"] = []string{"locks:evict"}
	if c, err := ask(d, sign(t, "ed", claims)); err != nil || !c.May(access.LocksEvict) {
		t.Errorf("%+v, %v", c, err)
	}
	// Lab mode switches protections off: no token of an issuer opens it.
	if c, err := ask(d, sign(t, "ed", with("scope", "lab *"))); err != nil || c.May(access.Lab) {
		t.Errorf("%+v, %v", c, err)
	}
}

// forged makes a token of a header, claims and a signature.
func forged(header map[string]any, claims jwt.MapClaims, signature string) string {
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(header) + "." + part(claims) + "." + signature
}

// Attacks on a token are refused, each for its reason, and no address that a token names is asked for a key.
func TestAttacksOnTokens(t *testing.T) {
	elsewhere := 0
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere++
		_, _ = w.Write(jwks("ed"))
	}))
	defer evil.Close()
	o := &origin{text: jwks("ec", "rs")}
	d, keys := doorOf(t, o.read)
	if err := keys.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	public, _ := x509.MarshalPKIXPublicKey(keyPairs()["rs"].secret.(crypto.Signer).Public())
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	hmac := func(secret []byte, kid string) string {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, good())
		token.Header["kid"] = kid
		text, _ := token.SignedString(secret)
		return text
	}
	real := sign(t, "rs", good())
	parts := strings.Split(real, ".")
	tampered := strings.Split(forged(nil, with("sub", "bob"), ""), ".")[1]
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	past := with("exp", ago(time.Hour))
	none := map[string]any{"alg": "none", "kid": "rs"}
	for _, row := range []struct{ name, token, reason string }{
		{"alg none", forged(none, good(), ""), "signature"},
		{"alg none with a signature", forged(none, good(), "AAAA"), "signature"},
		{"alg None", forged(map[string]any{"alg": "None", "kid": "rs"}, good(), ""), "malformed"},
		{"no alg", forged(map[string]any{"kid": "rs"}, good(), ""), "malformed"},
		{"HS256 with the public key as PEM", hmac(asPEM, "rs"), "signature"},
		{"HS256 with the public key as DER", hmac(public, "rs"), "signature"},
		{"HS256 with the JWKS", hmac(jwks("ec", "rs"), "rs"), "signature"},
		{"RS256 for a key of ES256", sign(t, "rs", good(), "kid", "ec"), "algorithm"},
		{"ES256 for a key of RS256", sign(t, "ec", good(), "kid", "rs"), "algorithm"},
		{"PS256", forged(map[string]any{"alg": "PS256", "kid": "rs"}, good(), parts[2]), "signature"},
		{"RS512", forged(map[string]any{"alg": "RS512", "kid": "rs"}, good(), parts[2]), "signature"},
		{"another's claims", parts[0] + "." + tampered + "." + parts[2], "signature"},
		{"no signature", parts[0] + "." + parts[1] + ".", "signature"},
		{"a signature cut off", real[:len(real)-2], "malformed signature"},
		{"unsigned", parts[0] + "." + parts[1], "malformed"},
		{"a fourth part", real + ".AAAA", "malformed"},
		{"wrong issuer", sign(t, "rs", with("iss", "https://evil.example.com")), "issuer"},
		{"issuer with a slash", sign(t, "rs", with("iss", issuerName+"/")), "issuer"},
		{"no issuer", sign(t, "rs", with("iss", nil)), "claim"},
		{"wrong audience", sign(t, "rs", with("aud", "bank")), "audience"},
		{"no audience", sign(t, "rs", with("aud", nil)), "claim"},
		{"empty audience", sign(t, "rs", with("aud", []string{})), "audience claim"},
		{"expired", sign(t, "rs", past), "expired"},
		{"expired beyond the leeway", sign(t, "rs", with("exp", ago(31*time.Second))), "expired"},
		{"no expiry", sign(t, "rs", with("exp", nil)), "no-expiry"},
		{"expiry as text", sign(t, "rs", with("exp", "tomorrow")), "malformed no-expiry"},
		{"not yet valid", sign(t, "rs", with("nbf", ago(-time.Hour))), "early"},
		{"not yet valid beyond the leeway", sign(t, "rs", with("nbf", ago(-32*time.Second))), "early"},
		{"huge", sign(t, "rs", with("sub", strings.Repeat("x", access.MaxToken))), "long"},
		{"huge and no token", strings.Repeat("x", 60<<10), "long"},
		{"no kid", sign(t, "rs", good(), "kid", ""), "key"},
		{"kid of another issuer", sign(t, "ed", good()), "key"},
		{"kid as a path", sign(t, "ed", good(), "kid", "../../../../dev/null"), "key"},
		{"kid as a URL", sign(t, "ed", good(), "kid", evil.URL+"/jwks"), "key"},
		{"kid as SQL", sign(t, "ed", good(), "kid", "x' UNION SELECT 'secret' --"), "key"},
		{"kid with a zero byte", sign(t, "ed", good(), "kid", "rs\x00"), "key"},
		{"jku", sign(t, "ed", good(), "jku", evil.URL), "key"},
		{"x5u", sign(t, "ed", good(), "x5u", evil.URL), "key"},
		{"jwk", sign(t, "ed", good(), "jwk", string(jwks("ed"))), "key"},
		{"jku for a known kid", sign(t, "ed", good(), "jku", evil.URL, "kid", "rs"), "algorithm"},
		{"critical header", sign(t, "rs", good(), "crit", "b64"), "type"},
		{"logout token", sign(t, "rs", good(), "typ", "logout+jwt"), "type"},
		{"operator's, shorter", "operator-", "malformed"},
		{"operator's, longer", "operator-11", "malformed"},
		{"empty parts", "..", "malformed"},
		{"JWE", "a.b.c.d.e", "malformed"},
	} {
		for range 2 { // what is refused is not remembered
			c, err := ask(d, row.token)
			if !slices.Contains(strings.Fields(row.reason), reason(err)) || c.Subject != "" || c.May(access.OrdersOwn) {
				t.Errorf("%s: %s, %+v; want %s", row.name, reason(err), c, row.reason)
			}
		}
	}
	if elsewhere != 0 || o.count() != 1 {
		t.Errorf("addresses in tokens were asked %d times, the issuer %d times", elsewhere, o.count())
	}
	for name, claims := range map[string]jwt.MapClaims{
		"expired within the leeway":   with("exp", ago(20*time.Second)),
		"not valid within the leeway": with("nbf", ago(-20*time.Second)),
		"one audience of several":     with("aud", []string{"bank", audience}),
	} {
		if _, err := ask(d, sign(t, "rs", claims)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, kind := range []string{"JWT", "jwt", "at+jwt", "application/at+JWT"} {
		if _, err := ask(d, sign(t, "rs", good(), "typ", kind)); err != nil {
			t.Errorf("typ %s: %v", kind, err)
		}
	}
}

// The texts of errors have nothing of the token in them, nor of what its claims say.
func TestErrorsSayNothingOfTheToken(t *testing.T) {
	o := &origin{text: jwks("rs")}
	d, keys := doorOf(t, o.read)
	_ = keys.Read(t.Context())
	for _, token := range []string{
		"s3cret", sign(t, "rs", with("iss", "s3cret")), sign(t, "ed", good(), "kid", "s3cret"),
		sign(t, "rs", with("exp", "s3cret")), "s3cret.s3cret.s3cret", sign(t, "rs", good(), "alg", "s3cret"),
	} {
		_, err := ask(d, token)
		bad, ok := err.(*access.TokenError)
		if !ok || strings.Contains(err.Error(), "s3cret") || !slices.Contains(access.Reasons(), bad.Reason) {
			t.Errorf("%v", err)
		}
	}
}

// The header Authorization is there once, and has a bearer token.
func TestTheHeader(t *testing.T) {
	o := &origin{text: jwks("rs")}
	d, keys := doorOf(t, o.read)
	_ = keys.Read(t.Context())
	real := sign(t, "rs", good())
	for _, row := range []struct {
		want   error
		values []string
	}{
		{nil, []string{"Bearer " + real}},
		{nil, []string{"bEARER   " + real}},
		{access.ErrNoToken, nil},
		{access.ErrNoToken, []string{""}},
		{access.ErrNoToken, []string{"Bearer"}},
		{access.ErrNoToken, []string{"Bearer "}},
		{access.ErrNoToken, []string{real}},
		{access.ErrNoToken, []string{"Basic " + real}},
		{access.ErrTwoTokens, []string{"Bearer " + real, "Bearer " + real}},
		{access.ErrTwoTokens, []string{"Bearer operator-1", "Bearer " + real}},
		{access.ErrToken, []string{"Bearer " + real + ", Bearer " + real}},
		{access.ErrToken, []string{"Bearer " + real + " " + real}},
	} {
		_, err := d.Caller(http.Header{"Authorization": row.values})
		if token, ok := err.(*access.TokenError); err != row.want && !(ok && token.Is(row.want)) {
			t.Errorf("%d values: %v, want %v", len(row.values), err, row.want)
		}
	}
}

// Each of the static tokens opens everything, and only as a whole.
func TestOperators(t *testing.T) {
	o := &origin{text: jwks("rs")}
	withTokens, _ := doorOf(t, o.read)
	alone := access.NewDoor(access.Static("operator-1", "operator-2"), nil)
	for _, d := range []*access.Door{withTokens, alone} {
		for _, token := range []string{"operator-1", "operator-2"} {
			c, err := ask(d, token)
			if err != nil || !c.May(access.Lab) || !c.May(access.StockWrite) || c.Subject != "" {
				t.Errorf("%s: %+v, %v", token, c, err)
			}
		}
		for _, token := range []string{"operator-", "operator-12", "OPERATOR-1", "operator-1,operator-2", "x"} {
			if c, err := ask(d, token); err == nil || c.May(access.Lab) {
				t.Errorf("%s: %+v", token, c)
			}
		}
	}
	if c, err := ask(access.NewDoor(access.Static(""), nil), ""); err == nil {
		t.Errorf("an empty token is an operator's: %+v", c)
	}
}

// A remembered token ends with its expiry.
func TestRememberedTokensEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{text: jwks("ed")}
		d, keys := doorOf(t, o.read)
		if err := keys.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		token := sign(t, "ed", with("exp", time.Now().Add(time.Minute).Unix()))
		if _, err := ask(d, token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + 29*time.Second)
		if _, err := ask(d, token); err != nil {
			t.Errorf("within the leeway: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := ask(d, token); reason(err) != "expired" {
			t.Errorf("it has expired: %s", reason(err))
		}
	})
}

// run is Keys.Run until the test ends.
func run(t *testing.T, keys *access.Keys) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		keys.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
}

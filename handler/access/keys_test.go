package access_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/handler/access"
)

var errDown = errors.New("down")

// A new key is found when the first token names it, without a restart.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{text: jwks("ed")}
		d, keys := doorOf(t, o.read)
		run(t, keys)
		time.Sleep(time.Minute)
		o.set(jwks("ed", "ec"), nil)
		for _, name := range []string{"ed", "ec"} {
			if _, err := ask(d, sign(t, name, good())); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := o.count(); n != 2 {
			t.Errorf("the keys were read %d times, want twice", n)
		}
	})
}

// A key that is gone from the set is unknown from the next reading on, also for a token that was valid before.
func TestARemovedKeyIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{text: jwks("ed", "ec")}
		d, keys := doorOf(t, o.read)
		run(t, keys)
		token := sign(t, "ec", good())
		if _, err := ask(d, token); err != nil {
			t.Fatal(err)
		}
		o.set(jwks("ed"), nil)
		time.Sleep(access.IssuerPace().Every + time.Second)
		if _, err := ask(d, token); reason(err) != "key" {
			t.Errorf("the key was removed: %s", reason(err))
		}
		if _, err := ask(d, sign(t, "ed", good())); err != nil {
			t.Error(err)
		}
	})
}

// While the issuer is down, or sends something else, tokens of known keys are valid. That a key is unknown cannot be
// said then.
func TestTheIssuerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{err: errDown}
		d, keys := doorOf(t, o.read)
		run(t, keys)
		if _, err := ask(d, sign(t, "ed", good())); !errors.Is(err, access.ErrKeys) || d.Err() == nil {
			t.Errorf("no key is known: %v, %v", err, d.Err())
		}
		if read := keys.ReadAt(); !read.IsZero() {
			t.Errorf("nothing was read, but at %v", read)
		}
		o.set(jwks("ed"), nil)
		time.Sleep(time.Minute)
		read := keys.ReadAt()
		if age := time.Since(read); read.IsZero() || age > time.Minute {
			t.Errorf("the keys were read %v ago", age)
		}
		if _, err := ask(d, sign(t, "ed", good())); err != nil || d.Err() != nil {
			t.Errorf("it is up again: %v, %v", err, d.Err())
		}
		for _, what := range []struct {
			text []byte
			err  error
		}{{nil, errDown}, {[]byte("<html>"), nil}, {[]byte(`{"keys":[]}`), nil}} {
			o.set(what.text, what.err)
			time.Sleep(time.Hour)
			if _, err := ask(d, sign(t, "ed", good())); err != nil || d.Err() != nil {
				t.Errorf("%s, %v: a token of a known key: %v", what.text, what.err, err)
			}
			if _, err := ask(d, sign(t, "ec", good())); !errors.Is(err, access.ErrKeys) {
				t.Errorf("%s, %v: a token of another key: %v", what.text, what.err, err)
			}
			if again := keys.ReadAt(); !again.Equal(read) {
				t.Errorf("%s, %v: the last successful reading moves from %v to %v", what.text, what.err, read, again)
			}
		}
	})
}

// A flood of tokens with unknown keys makes one reading in each pause, no more, and waits for nothing in between.
func TestAFloodOfUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{text: jwks("ed")}
		d, keys := doorOf(t, o.read)
		run(t, keys)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for j := range 300 {
					_, err := ask(d, sign(t, "ec", good(), "kid", fmt.Sprint(i, "-", j)))
					if reason(err) != "key" {
						t.Errorf("%v", err)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		if most := int(took/access.IssuerPace().Pause) + 2; o.count() > most || o.count() < 3 {
			t.Errorf("%d readings in %v, want 3 to %d", o.count(), took, most)
		}
		if _, err := ask(d, sign(t, "ed", good())); err != nil {
			t.Error(err)
		}
	})
}

// A set is read as far as its keys are for signatures that are known here. Weak and broken keys are left out.
func TestSets(t *testing.T) {
	rs, ec, ed := keyPairs()["rs"].jwk, keyPairs()["ec"].jwk, keyPairs()["ed"].jwk
	n, x, y, edX := rs["n"].(string), ec["x"].(string), ec["y"].(string), ed["x"].(string)
	long := strings.Repeat(n[:340], 5)
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`{"kid":"%d","kty":"OKP","crv":"Ed25519","x":"%s"}`, i, edX)
	}
	for name, row := range map[string]struct{ keys, err string }{
		"RSA":                 {`{"kid":"k","kty":"RSA","n":"` + n + `","e":"AQAB"}`, ""},
		"RSA, exponent 1":     {`{"kid":"k","kty":"RSA","n":"` + n + `","e":"AQ"}`, "no key"},
		"RSA, even exponent":  {`{"kid":"k","kty":"RSA","n":"` + n + `","e":"BA"}`, "no key"},
		"RSA, huge exponent":  {`{"kid":"k","kty":"RSA","n":"` + n + `","e":"` + n + `"}`, "no key"},
		"RSA, 1024 bits":      {`{"kid":"k","kty":"RSA","n":"` + n[:171] + `","e":"AQAB"}`, "no key"},
		"RSA, 10240 bits":     {`{"kid":"k","kty":"RSA","n":"` + long + `","e":"AQAB"}`, "no key"},
		"RSA for PS256":       {`{"kid":"k","kty":"RSA","alg":"PS256","n":"` + n + `","e":"AQAB"}`, "no key"},
		"RSA for encryption":  {`{"kid":"k","kty":"RSA","use":"enc","n":"` + n + `","e":"AQAB"}`, "no key"},
		"EC":                  {`{"kid":"k","kty":"EC","crv":"P-256","x":"` + x + `","y":"` + y + `","use":"sig"}`, ""},
		"EC, off the curve":   {`{"kid":"k","kty":"EC","crv":"P-256","x":"` + x + `","y":"` + x + `"}`, "no key"},
		"EC, another curve":   {`{"kid":"k","kty":"EC","crv":"secp256k1","x":"` + x + `","y":"` + y + `"}`, "no key"},
		"EC, not base64url":   {`{"kid":"k","kty":"EC","crv":"P-256","x":"+/+","y":"` + y + `"}`, "no key"},
		"Ed25519":             {`{"kid":"k","kty":"OKP","crv":"Ed25519","x":"` + edX + `","alg":"EdDSA"}`, ""},
		"Ed25519, too short":  {`{"kid":"k","kty":"OKP","crv":"Ed25519","x":"AAAA"}`, "no key"},
		"no kid":              {`{"kty":"OKP","crv":"Ed25519","x":"` + edX + `"}`, "no key"},
		"a secret":            {`{"kid":"k","kty":"oct","k":"AAAA"}`, "no key"},
		"two of one kid":      {`` + many[0] + `,` + many[0], "same kid"},
		"65 keys":             {strings.Join(many, ","), "65 keys"},
		"64 keys":             {strings.Join(many[:64], ","), ""},
		"one good of two":     {`{"kid":"s","kty":"oct"},` + many[0], ""},
		"a number for a kid":  {`{"kid":5,"kty":"oct"}`, "not a JWKS"},
		"something after it":  {`]} {"keys":[`, "not a JWKS"},
		"an unfinished value": {`{"kid":`, "not a JWKS"},
	} {
		o := &origin{text: []byte(`{"keys":[` + row.keys + `]}`)}
		_, keys := doorOf(t, o.read)
		err := keys.Read(t.Context())
		if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("%s: %v, want %q", name, err, row.err)
		}
	}
}

// A file is read again when it changes. One that is missing, too large or wrong is an error.
func TestAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	_, keys := doorOf(t, access.File(path))
	for text, want := range map[string]string{
		string(jwks("ed")): "", "{}": "no key", strings.Repeat(" ", 256<<10+1): "larger than",
		fmt.Sprintf("%*s", 256<<10, jwks("ed")): "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := keys.Read(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	_, keys = doorOf(t, access.File(path+"x"))
	if err := keys.Read(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// An issuer says itself where its keys are. What it says is not followed to another issuer, to http elsewhere, or by a
// redirect.
func TestDiscovery(t *testing.T) {
	var answer func(base string) string
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tenant/.well-known/openid-configuration":
			fmt.Fprint(w, answer(server.URL))
		case "/keys":
			_, _ = w.Write(jwks("ed"))
		case "/moved":
			http.Redirect(w, r, "/keys", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for configuration, want := range map[string]string{
		`{"issuer":"BASE/tenant","jwks_uri":"BASE/keys"}`:             "",
		`{"issuer":"BASE/other","jwks_uri":"BASE/keys"}`:              "another issuer",
		`{"issuer":"BASE/tenant/","jwks_uri":"BASE/keys"}`:            "another issuer",
		`{"jwks_uri":"BASE/keys"}`:                                    "another issuer",
		`{"issuer":"BASE/tenant","jwks_uri":"http://192.0.2.1/keys"}`: "not https",
		`{"issuer":"BASE/tenant","jwks_uri":"file:///etc/passwd"}`:    "not https",
		`{"issuer":"BASE/tenant","jwks_uri":""}`:                      "not https",
		`{"issuer":"BASE/tenant","jwks_uri":"BASE/moved"}`:            "redirects",
		`{"issuer":"BASE/tenant","jwks_uri":"BASE/none"}`:             "404",
		`<html>`: "not JSON",
	} {
		answer = func(base string) string { return strings.ReplaceAll(configuration, "BASE", base) }
		_, keys := doorOf(t, access.Issuer(server.URL+"/tenant"))
		err := keys.Read(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", configuration, err, want)
		}
	}
	for address, ok := range map[string]bool{
		"https://id.example.com": true, "https://id.example.com/realms/a": true, "http://localhost:8080": true,
		"http://127.0.0.1:1/x": true, "http://[::1]:1": true, "http://id.example.com": false, "http://10.0.0.1": false,
		"https://": false, "": false, "id.example.com": false, "ftp://id.example.com": false,
		"https://me:s3cret@id.example.com": false, "http://127.0.0.1.example.com": false,
		"http://localhost.example.com": false, "https://id.example.com#x": false,
	} {
		if access.CheckIssuer(address) != ok {
			t.Errorf("%s: %v", address, !ok)
		}
	}
}

package handler

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

const (
	keysEvery   = 5 * time.Minute // so long a key that the issuer has withdrawn may stay valid
	keysAgain   = 5 * time.Second // between two reads at least, whatever is in tokens
	keysWait    = time.Second     // of a request for a read that another one has begun
	keysTimeout = 5 * time.Second // of a read
	maxKeys     = 1 << 20         // bytes
	minRSA      = 2048            // bits
)

// keys are those of an issuer. jwkset reads each of them, and not the whole set: of a set with one member that it
// cannot read it would take none, and of two keys with one id only the first.
type keys struct {
	issuer string
	url    string
	client *http.Client

	mu      sync.Mutex
	list    []jwkset.JWK
	err     error         // of the last read
	tried   time.Time     // when it began
	reading chan struct{} // closed at its end; nil: no read is under way
}

func newKeys(o TokenOptions) *keys {
	k := &keys{issuer: o.Issuer, url: o.KeysURL, err: errors.New("not yet")}
	k.client = &http.Client{Transport: o.Transport, Timeout: keysTimeout, CheckRedirect: sameHost}
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableKeepAlives, t.MaxResponseHeaderBytes = true, 64<<10
		k.client.Transport = t
	}
	return k
}

// sameHost: another host could give keys of its own.
func sameHost(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme || len(via) > 3 {
		return fmt.Errorf("redirected from %s to %s", first, r.URL)
	}
	return nil
}

func (k *keys) run(ctx context.Context) {
	for ctx.Err() == nil {
		k.refresh(ctx)
		pause := keysEvery
		if _, err := k.current(); err != nil {
			pause = keysAgain
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// current returns the keys that were read last. After a read that has failed, they stay valid.
func (k *keys) current() ([]jwkset.JWK, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrKeys, k.err)
	}
	return k.list, nil
}

// find returns the keys for alg with this id; "": all. If there is none, the keys may have changed, and are read anew.
func (k *keys) find(ctx context.Context, id, alg string) ([]jwt.VerificationKey, error) {
	all, err := k.current()
	if err != nil {
		return nil, err
	}
	found := fitting(all, id, alg)
	if len(found) == 0 {
		k.refresh(context.WithoutCancel(ctx)) // others wait for it, too
		if all, err = k.current(); err != nil {
			return nil, err
		}
		found = fitting(all, id, alg)
	}
	return found, nil
}

// refresh reads the keys, or waits for the one who does. It does nothing if they were just read.
func (k *keys) refresh(ctx context.Context) {
	k.mu.Lock()
	reading := k.reading
	mine := reading == nil && time.Since(k.tried) >= keysAgain
	if mine {
		k.tried, k.reading = time.Now(), make(chan struct{})
	}
	k.mu.Unlock()
	if !mine {
		if reading != nil {
			select {
			case <-reading:
			case <-time.After(keysWait):
			}
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	list, err := k.read(ctx)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		slog.ErrorContext(ctx, "read the keys of the issuer", "error", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if list != nil { // without a key in it, if the issuer has withdrawn all
		k.list = list
	}
	k.err = err
	close(k.reading)
	k.reading = nil
}

// read returns nil if it cannot tell which keys there are.
func (k *keys) read(ctx context.Context) ([]jwkset.JWK, error) {
	from := k.url
	if from == "" {
		var about struct {
			Issuer  string `json:"issuer"`
			KeysURL string `json:"jwks_uri"`
		}
		const wellKnown = "/.well-known/openid-configuration"
		if err := k.get(ctx, strings.TrimSuffix(k.issuer, "/")+wellKnown, &about); err != nil {
			return nil, err
		}
		if about.Issuer != k.issuer {
			return nil, fmt.Errorf("the issuer in the settings is %q, and it calls itself %q", k.issuer, about.Issuer)
		}
		if strings.HasPrefix(k.issuer, "https:") && !strings.HasPrefix(about.KeysURL, "https:") {
			return nil, fmt.Errorf("the issuer has its keys at %q, which is not https", about.KeysURL)
		}
		from = about.KeysURL
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, from, &set); err != nil {
		return nil, err
	}
	if set.Keys == nil {
		return nil, fmt.Errorf("%s is no set of keys", from)
	}
	list := []jwkset.JWK{}
	for i, member := range set.Keys {
		key, err := parseKey(member)
		if err != nil { // RFC 7517, section 5: ignore it
			slog.DebugContext(ctx, "a key of the issuer is of no use", "number", i, "reason", err)
			continue
		}
		list = append(list, key)
	}
	if len(list) == 0 {
		return list, fmt.Errorf("%s has %d keys, and none that could sign a token", from, len(set.Keys))
	}
	return list, nil
}

func (k *keys) get(ctx context.Context, from string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	reply, err := k.client.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxKeys+1))
	switch where := (&url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path}).String(); {
	case err != nil:
		return fmt.Errorf("%s: %w", where, err)
	case reply.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: status %d", where, reply.StatusCode)
	case len(text) > maxKeys:
		return fmt.Errorf("%s: more than %d bytes", where, maxKeys)
	}
	return json.Unmarshal(text, into)
}

// parseKey returns a public key that tokens may be signed with. Certificates do not count: the issuer's word does.
func parseKey(text json.RawMessage) (key jwkset.JWK, err error) {
	var m jwkset.JWKMarshal
	if err := json.Unmarshal(text, &m); err != nil {
		return key, err
	}
	m.X5U, m.X5C, m.X5T, m.X5TS256 = "", nil, "", ""
	m.D, m.P, m.Q, m.DP, m.DQ, m.QI, m.OTH = "", "", "", "", "", "", nil
	if key, err = jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{}); err != nil {
		return key, err
	}
	if m.USE != "" && m.USE != jwkset.UseSig || m.KEYOPS != nil && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) {
		return key, errors.New("not for signatures")
	}
	if public, ok := key.Key().(*rsa.PublicKey); ok && public.N.BitLen() < minRSA {
		return key, fmt.Errorf("RSA with less than %d bits", minRSA)
	}
	return key, nil
}

func fitting(all []jwkset.JWK, id, alg string) (found []jwt.VerificationKey) {
	for _, key := range all {
		m := key.Marshal()
		if id != "" && m.KID != id || m.ALG != "" && m.ALG.String() != alg {
			continue
		}
		fits := false
		switch key.Key().(type) {
		case *rsa.PublicKey:
			fits = alg[1:2] == "S" && alg[0] != 'E' // RS256, PS256
		case *ecdsa.PublicKey:
			fits = strings.HasPrefix(alg, "ES")
		case ed25519.PublicKey:
			fits = alg == "EdDSA"
		}
		if fits {
			found = append(found, key.Key())
		}
	}
	return found
}

package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// File returns a Source that reads a file with a JWKS.
func File(path string) Source {
	return func(context.Context) ([]byte, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return bounded(file)
	}
}

// Issuer returns a Source that asks an OpenID Connect issuer for the address of its JWKS, and then for the JWKS.
// Neither reply may redirect, and both addresses are safe as CheckIssuer says.
func Issuer(issuer string) Source {
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it redirects") },
	}
	return func(ctx context.Context) ([]byte, error) {
		text, err := get(ctx, client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
		if err != nil {
			return nil, err
		}
		var found struct {
			Issuer string `json:"issuer"`
			JWKS   string `json:"jwks_uri"`
		}
		switch err := json.Unmarshal(text, &found); {
		case err != nil:
			return nil, errors.New("the issuer's configuration is not JSON")
		case found.Issuer != issuer:
			return nil, errors.New("the issuer's configuration is another issuer's")
		case !CheckIssuer(found.JWKS):
			return nil, errors.New("the issuer's jwks_uri is not https")
		}
		return get(ctx, client, found.JWKS)
	}
}

// CheckIssuer reports whether an address can be asked for keys: https, or http on this computer. Over http, whoever
// stands between could send his own keys.
func CheckIssuer(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Close = true // it is asked once in some minutes
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", address, resp.Status)
	}
	return bounded(resp.Body)
}

func bounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxKeySet+1))
	if err == nil && len(text) > maxKeySet {
		err = fmt.Errorf("it is larger than %d bytes", maxKeySet)
	}
	return text, err
}

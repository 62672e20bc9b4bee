package app

import (
	"context"
	"strings"
	"time"

	"example.com/stock/handler"
	"example.com/stock/handler/access"
	"example.com/stock/service/ratelimit"
)

// Values of the setting auth. Empty means authOff, but for a service for customers, which must be told.
const (
	authOff    = "off"
	authTokens = "tokens"
	authProxy  = "trust-proxy"
)

// A TokenConfig says which tokens prove a customer.
type TokenConfig struct {
	Issuer   string
	Audience string
	KeysFile string // empty: the issuer is asked
	Customer string
	Leeway   time.Duration
}

// checkAccess returns an error for every key about tokens with an unusable value.
func (c *Config) checkAccess() (bad []error) {
	no := func(key, why string, pairs ...any) { bad = append(bad, wrong(key, why, pairs...)) }
	switch c.Auth {
	case "", authOff, authProxy:
	case authTokens:
		for key, value := range map[string]string{
			"tokens.issuer": c.Tokens.Issuer, "tokens.audience": c.Tokens.Audience,
			"tokens.customer_claim": c.Tokens.Customer,
		} {
			if value == "" {
				no(key, "tokens")
			}
		}
		if c.Tokens.Issuer != "" && c.Tokens.KeysFile == "" && !access.CheckIssuer(c.Tokens.Issuer) {
			no("tokens.issuer", "issuer")
		}
	default:
		no("auth", "none-of", "value", quote(c.Auth), "list", strings.Join([]string{
			authOff, authTokens, authProxy,
		}, ", "))
	}
	if most := 5 * time.Minute; c.Tokens.Leeway < 0 || c.Tokens.Leeway > most {
		no("tokens.leeway", "from-to", "value", c.Tokens.Leeway.String(), "least", "0s", "most", most.String())
	}
	return bad
}

// operators returns the static tokens. Several are for their rotation.
func (c *Config) operators() []string {
	tokens, _ := list(c.AdminToken)
	return tokens
}

// openDoor prepares to find out who sends a request. It reads keys from a file, so that a wrong one keeps the instance
// from its start; an issuer in the network is asked later.
func (a *App) openDoor() error {
	var tokens *access.Tokens
	switch c := a.cfg.Tokens; {
	case a.cfg.Auth == authTokens:
		source, pace := access.Issuer(c.Issuer), access.IssuerPace()
		if c.KeysFile != "" {
			source, pace = access.File(c.KeysFile), access.FilePace()
		}
		a.keys = access.NewKeys(source, pace, a.log)
		a.metrics.TokenKeys(a.keys.ReadAt)
		if c.KeysFile != "" {
			if err := a.keys.Read(context.Background()); err != nil {
				return failure("keys-file", "why", err)
			}
		}
		tokens = access.NewTokens(access.Rule{
			Issuer: c.Issuer, Audience: c.Audience, Customer: c.Customer, Leeway: c.Leeway,
		}, a.keys)
	case a.cfg.forCustomers() && a.cfg.Auth != authProxy:
		return failure("auth", "proxy", envPrefix+"AUTH="+authProxy, "tokens", envPrefix+"AUTH="+authTokens,
			"issuer", envPrefix+"TOKENS_ISSUER", "audience", envPrefix+"TOKENS_AUDIENCE")
	}
	operators, err := reread(a, "admin_token", a.cfg.AdminToken, func(text string) (access.Operators, error) {
		static, _ := list(text)
		return access.NewOperators(static), nil
	})
	a.door = access.NewDoor(operators, tokens)
	return err
}

// customerRate returns how often a proven customer may ask, and how many idempotency keys he may use while a store
// keeps them. Within that time a store keeps at most twice as many keys of one customer.
func (c *Config) customerRate() (r handler.Rate) {
	if c.Auth != authTokens {
		return r
	}
	policy := func(name string, admitted int, within time.Duration, burst int) (p []ratelimit.Policy) {
		if admitted > 0 {
			p = append(p, ratelimit.Policy{Name: name, Every: within / time.Duration(admitted), Burst: burst})
		}
		return p
	}
	r.All = policy("customer", c.Limits.CustomerRate, time.Second, c.Limits.CustomerBurst)
	r.Keyed = policy("keys", c.Limits.CustomerKeys, c.Orders.KeepKeys, c.Limits.CustomerKeys)
	return r
}

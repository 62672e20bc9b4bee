package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/handler/access"
	"example.com/stock/handler/access/issuer"
	"example.com/stock/service/order"
)

// maxTTL is the longest life of a token that the command makes.
const maxTTL = 30 * 24 * time.Hour

func tokenCommand(v voice) *cobra.Command {
	a := tokenAsk{voice: v}
	cmd := &cobra.Command{
		Use:  "token --sub CUSTOMER",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.OutOrStdout(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&a.claim.Subject, "sub", "", "")
	flags.StringSliceVar(&a.scopes, "scope", []string{string(access.OrdersOwn)}, "")
	flags.DurationVar(&a.claim.TTL, "ttl", time.Hour, "")
	flags.StringVar(&a.keys, "keys", "out/token.pem", "")
	flags.StringVar(&a.claim.Issuer, "issuer", "demo", "")
	flags.StringVar(&a.claim.Audience, "audience", "orders", "")
	return cmd
}

// A tokenAsk is what token is asked for.
type tokenAsk struct {
	voice
	claim  issuer.Claim
	scopes []string
	keys   string
}

// run prints the token alone on stdout, and on stderr what is new.
func (a *tokenAsk) run(stdout, stderr io.Writer) error {
	if err := a.check(); err != nil {
		return err
	}
	i, made, err := issuer.Open(a.keys)
	if err != nil {
		return failure("wrong.flag", "flag", "keys", "reason", err)
	}
	public := strings.TrimSuffix(a.keys, ".pem") + ".jwks"
	if err := i.WriteJWKS(public); err != nil {
		return failure("wrong.flag", "flag", "keys", "reason", err)
	}
	if made {
		fmt.Fprintln(stderr, a.say("made-keys", "keys", a.keys, "public", public,
			"issuer", a.claim.Issuer, "audience", a.claim.Audience))
	}
	token, err := i.Token(a.claim)
	if err == nil {
		fmt.Fprintln(stdout, token)
	}
	return err
}

func (a *tokenAsk) check() error {
	if _, err := order.ParseCustomer(a.claim.Subject); err != nil {
		return failure("wrong.flag", "flag", "sub", "reason", phrases.Say("wrong.customer"))
	}
	known := access.Scopes()
	for _, name := range a.scopes {
		scope := access.Scope(name)
		if !slices.Contains(known, scope) {
			return failure("wrong.flag", "flag", "scope",
				"reason", phrases.Say("wrong.scope", "scope", fmt.Sprintf("%q", name), "list", fmt.Sprint(known)))
		}
		a.claim.Scopes = append(a.claim.Scopes, scope)
	}
	if a.claim.TTL < time.Second || a.claim.TTL > maxTTL {
		return failure("wrong.from-to-is", "flag", "ttl", "least", "1s", "most", "720h", "given", a.claim.TTL.String())
	}
	if a.claim.Issuer == "" || a.claim.Audience == "" {
		return failure("wrong.flag", "flag", "issuer, --audience", "reason", phrases.Say("wrong.empty"))
	}
	return nil
}

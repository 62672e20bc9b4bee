package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"example.com/stock/handler/access"
	"example.com/stock/handler/access/issuer"
	"example.com/stock/tools/bench/rig"
)

// A door has instances whose customers need tokens, and the tokens.
type door struct {
	customers       []rig.Customer
	proven, limited *rig.Side // nil: it is not measured
}

// customersOfRate is so many that none of them asks more often than limits.customer_rate admits.
const customersOfRate = 2000

// openDoor makes tokens and starts the sides that rows need. On error nothing is left running.
func openDoor(ctx context.Context, folder, program string, s settings) (d *door, err error) {
	d = &door{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.proven.Close(), d.limited.Close())
			d = nil
		}
	}()
	signer, _, err := issuer.Open(filepath.Join(folder, "token.pem"))
	if err != nil {
		return d, err
	}
	keys := filepath.Join(folder, "token.jwks")
	if err := signer.WriteJWKS(keys); err != nil {
		return d, err
	}
	for i := range customersOfRate {
		name := fmt.Sprintf("customer-%d", i)
		token, err := signer.Token(issuer.Claim{
			Issuer: "bench", Audience: "orders", Subject: name, Scopes: []access.Scope{access.OrdersOwn},
			TTL: 12 * time.Hour,
		})
		if err != nil {
			return d, err
		}
		d.customers = append(d.customers, rig.Customer{Name: name, Token: token})
	}
	env := []string{
		storeOfOrders, "STOCK_AUTH=tokens", "STOCK_TOKENS_ISSUER=bench", "STOCK_TOKENS_AUDIENCE=orders",
		"STOCK_TOKENS_KEYS_FILE=" + keys,
	}
	open := func(name string, env ...string) (*rig.Side, error) {
		return rig.Open(ctx, rig.Options{
			Name: name, Binary: program, Instances: s.instances, Want: wanted([]string{orders}), Env: env,
			Tell: rig.Progress,
		})
	}
	if d.limited, err = open("tokens and rates", env...); err != nil {
		return d, err
	}
	d.proven, err = open("tokens", append(env, "STOCK_LIMITS_CUSTOMER_RATE=0", "STOCK_LIMITS_CUSTOMER_KEYS=0")...)
	return d, err
}

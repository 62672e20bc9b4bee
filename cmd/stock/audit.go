package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

func auditCommand(v voice) *cobra.Command {
	var address, token string
	var asJSON bool
	cmd := &cobra.Command{
		Use:  "audit SKU...",
		Args: atLeast(1),
		RunE: func(cmd *cobra.Command, skus []string) error {
			a := auditor{v, strings.TrimRight(address, "/"), token, &http.Client{Timeout: 30 * time.Second}}
			err := a.run(cmd.Context(), cmd.OutOrStdout(), skus, asJSON)
			if cmd.Context().Err() != nil && err != nil {
				return exitError{exitInterrupted, failure("interrupted.by", "why", err)}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&address, "url", "http://localhost:8080", "")
	cmd.Flags().StringVar(&token, "token", "", "")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

// An auditor reads the API of a service.
type auditor struct {
	voice
	url    string
	token  string // "": none
	client *http.Client
}

func (a auditor) run(ctx context.Context, out io.Writer, skus []string, asJSON bool) error {
	wrong := 0
	for _, name := range skus {
		sku, err := app.ParseSKU(name)
		if err != nil {
			return err
		}
		account, err := a.audit(ctx, sku)
		if err != nil {
			return exitError{exitTarget, failure("audit.failed", "sku", sku, "why", err)}
		}
		if len(account.Problems) > 0 {
			wrong++
		}
		if asJSON {
			line, _ := json.Marshal(account) // numbers and texts: it cannot fail
			fmt.Fprintf(out, "%s\n", line)
			continue
		}
		key := "audit.balances"
		if len(account.Problems) > 0 {
			key = "audit.does-not"
		}
		fmt.Fprintln(out, a.say("audit.account", "sku", sku, "received", account.Received,
			"available", account.Available, "reserved", account.Reserved, "sold", account.Sold,
			"movements", account.Movements, "verdict", phrases.Say(key)))
		for _, problem := range account.Problems {
			fmt.Fprintln(out, "  "+a.imbalance(problem))
		}
		if account.Mended > 0 {
			fmt.Fprintln(out, "  "+a.say("audit.mended", "n", account.Mended))
		}
	}
	if wrong > 0 {
		return exitError{exitVerdict, failure("audit.wrong", "wrong", wrong, "n", len(skus))}
	}
	return nil
}

// imbalance says what is wrong. A kind that has no text here says it in English.
func (a auditor) imbalance(i order.Imbalance) string {
	level := phrases.Say("audit.level", "received", i.Level.Received, "available", i.Level.Available,
		"reserved", i.Level.Reserved, "sold", i.Level.Sold)
	switch i.Kind {
	case order.OtherSKU:
		return a.say("audit.other-sku", "number", i.Number, "other", i.Other)
	case order.Gap:
		return a.say("audit.gap", "number", i.Number, "next", i.Next)
	case order.Law:
		return a.say("audit.law", "number", i.Number, "level", level)
	case order.CounterOf:
		return a.say("audit.counters", "level", level)
	case order.SumOf:
		return a.say("audit.sum", "level", level, "number", i.Level.Number)
	}
	return i.String()
}

func (a auditor) audit(ctx context.Context, sku service.SKU) (order.Account, error) {
	path := "/v1/stock/" + url.PathEscape(string(sku))
	var stock struct {
		order.Counts
		Guard   string
		Version uint64
	}
	if err := a.get(ctx, path, &stock); err != nil {
		return order.Account{}, err
	}
	if stock.Guard != order.Guard {
		return order.Account{}, failure("audit.no-ledger", "guard", stock.Guard)
	}
	counters := order.Level{
		Received: stock.Received, Available: stock.Available, Reserved: stock.Reserved, Sold: stock.Sold,
		Number: stock.Version,
	}
	var failed error
	account := order.Audit(sku, counters, a.movements(ctx, path, counters.Number, &failed))
	return account, failed
}

// movements reads the movements up to that number, page by page. It ends early with failed set if it cannot.
func (a auditor) movements(ctx context.Context, path string, last uint64, failed *error) iter.Seq[order.Movement] {
	return func(yield func(order.Movement) bool) {
		for cursor := ""; ; {
			var page struct {
				Movements []order.Movement
				Next      string
			}
			query := url.Values{"limit": {"1000"}}
			if cursor != "" {
				query.Set("cursor", cursor)
			}
			if *failed = a.get(ctx, path+"/movements?"+query.Encode(), &page); *failed != nil {
				return
			}
			for _, m := range page.Movements {
				if m.Number > last || !yield(m) {
					return // what came after the counters were read
				}
			}
			if cursor = page.Next; cursor == "" {
				return
			}
		}
	}
}

func (a auditor) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Accept-Language", string(a.voice))
	if token := cmp.Or(a.token, os.Getenv("STOCK_ADMIN_TOKEN")); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := a.client.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		var problem struct{ Title, Detail string }
		_ = json.NewDecoder(io.LimitReader(reply.Body, 64<<10)).Decode(&problem)
		return fmt.Errorf("%s: %s: %s", reply.Status, problem.Title, problem.Detail)
	}
	if err := json.NewDecoder(reply.Body).Decode(into); err != nil {
		return failure("audit.reply", "why", err)
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/order"
	"example.com/stock/service"
)

const auditLong = `Audit compares the counters of SKUs that are sold by orders with the ledger of their movements:
the numbers of the movements have no gap, received = available + reserved + sold after each of them with no term below
zero, and their sum is what the counters say. It reads the public API, needs no token, and can run while the service
sells: it compares the counters with the movements up to the one that they name.

It reads every movement of a SKU, in pages of 1000.

Exit status:
    0  the books balance
    1  wrong usage, or an internal error
    2  the service cannot be reached, or refuses
    3  the books of a SKU do not balance
  130  interrupted`

func auditCommand() *cobra.Command {
	var address string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "audit SKU...",
		Short:   "Compare the stock of orders with the ledger of its movements",
		Long:    auditLong,
		Example: "  stock audit book pen --url http://localhost:8080\n  stock audit book --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, skus []string) error {
			a := auditor{strings.TrimRight(address, "/"), &http.Client{Timeout: 30 * time.Second}}
			err := a.run(cmd.Context(), cmd.OutOrStdout(), skus, asJSON)
			if cmd.Context().Err() != nil && err != nil {
				return exitError{exitInterrupted, fmt.Errorf("interrupted: %w", err)}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&address, "url", "http://localhost:8080",
		"the service, or the balancer in front of its instances")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an object for each SKU and line")
	return cmd
}

// An auditor reads the API of a service.
type auditor struct {
	url    string
	client *http.Client
}

func (a auditor) run(ctx context.Context, out io.Writer, skus []string, asJSON bool) error {
	wrong := 0
	for _, name := range skus {
		sku, err := service.ParseSKU(name)
		if err != nil {
			return err
		}
		account, err := a.audit(ctx, sku)
		if err != nil {
			return exitError{exitTarget, fmt.Errorf("audit of %s: %w", sku, err)}
		}
		if len(account.Problems) > 0 {
			wrong++
		}
		if asJSON {
			line, _ := json.Marshal(account) // numbers and texts: it cannot fail
			fmt.Fprintf(out, "%s\n", line)
			continue
		}
		fmt.Fprintf(out, "%s: received %d = available %d + reserved %d + sold %d, %d movements: ",
			sku, account.Received, account.Available, account.Reserved, account.Sold, account.Movements)
		if len(account.Problems) == 0 {
			fmt.Fprintln(out, "balances")
			continue
		}
		fmt.Fprintln(out, "DOES NOT BALANCE")
		for _, problem := range account.Problems {
			fmt.Fprintln(out, "  "+problem)
		}
	}
	if wrong > 0 {
		return exitError{exitVerdict, fmt.Errorf("the books of %d of %d SKUs do not balance", wrong, len(skus))}
	}
	return nil
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
		return order.Account{}, fmt.Errorf("it is not sold by orders, and has no ledger (guard %q)", stock.Guard)
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
		return fmt.Errorf("read the reply: %w", err)
	}
	return nil
}

package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

func lockEvictCommand() *cobra.Command {
	var url, token string
	cmd := &cobra.Command{
		Use:   "evict <strategy> <key>",
		Short: "Take a lock from its holder, through an instance of the service",
		Long: `Take a lock from its holder, and let the next in. For a holder that hangs, or was never to have it.

The evicted holder learns of it at its next renewal (redis-watchdog, mysql-table: a third of its lease; zk-sequential: half a second;
redis-setnx: never, its lease runs out), or as its connection is ended (mysql-for-update, mysql-get-lock: at once). What it writes until then is refused: the stores are told the new fence at once. A command under "stock lock"
gets SIGTERM when its stock learns of it; what it writes elsewhere only a check of LOCK_FENCE there can refuse.

A SKU that is sold in segments has a lock for each: name one of those that "stock lock ls segmented <sku>" shows.

It goes through an instance, because the stores must be told. The instance needs an admin token.`,
		Example: `  stock lock evict redis-watchdog stock --url http://127.0.0.1:9090 --admin-token TOKEN
  stock lock evict segmented stock#3 --url http://127.0.0.1:9090 --admin-token TOKEN`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if token == "" {
				token = os.Getenv("STOCK_ADMIN_TOKEN")
			}
			e, err := askLock[struct {
				Fence   uint64
				Evicted *seenContender
				Stores  map[string]string
			}](cmd.Context(), http.MethodDelete, url, args[0], args[1], token)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if who := e.Evicted; who == nil {
				fmt.Fprintln(out, "nobody was seen to hold it")
			} else {
				fmt.Fprintf(out, "evicted %s, who had fence %d%s\n", orUnknown(who.Who), who.Fence, forHow(who.Since, ", for "))
			}
			fmt.Fprintf(out, "fence is now %d\n", e.Fence)
			for _, store := range slices.Sorted(maps.Keys(e.Stores)) {
				fmt.Fprintf(out, "store %s: %s\n", store, e.Stores[store])
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:9090",
		"an instance of the service, at its address for operators (--admin-addr)")
	cmd.Flags().StringVar(&token, "admin-token", "", "its admin token (default: $STOCK_ADMIN_TOKEN)")
	return cmd
}

// forHow is how long ago since is, or "".
func forHow(since *time.Time, prefix string) string {
	if since == nil || since.IsZero() {
		return ""
	}
	return prefix + brief(time.Since(*since))
}

// brief is a duration for people.
func brief(d time.Duration) string {
	if d < 10*time.Second {
		return max(d, 0).Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func orUnknown(who string) string {
	if who == "" {
		return "(no name)"
	}
	return who
}

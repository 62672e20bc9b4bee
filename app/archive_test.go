package app

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/service/archive"
	"example.com/stock/service/order"
)

// An order from before the archive is answered with what became of it, on either store, and one that was never made
// otherwise.
func TestAnArchivedOrderIsAnswered(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"mysql", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			args := backends("--store="+store, "--seed-sku=", "--profile=orders", "--orders-keep-keys=30h")
			if store == "mysql" {
				args = append(args, "--mysql-dsn="+servers.MariaDB(t))
			} else {
				args = append(args, "--redis-addrs="+stacktest.Redis(t).Addr)
			}
			i := begin(t, args...)
			i.ready(t, store)
			a, err := OpenArchive(mustConfigure(t, args...), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.Close() })
			if got := a.minAge(); got != 30*time.Hour {
				t.Errorf("archived when %v old", got)
			}
			now := time.Now()
			o := archive.Options{Before: now.Add(-29 * time.Hour), Dir: t.TempDir()}
			if _, err := a.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "or earlier") {
				t.Errorf("%v", err)
			}
			// A part with nothing in it: nothing can be that old here.
			before := now.Add(-48 * time.Hour).UTC().Truncate(time.Second)
			err = a.store.TakeAway(t.Context(), order.Taking{Part: order.Part{Number: 1, Digest: "1", Before: before}})
			if err != nil {
				t.Fatal(err)
			}
			for ago, want := range map[time.Duration]string{
				47 * time.Hour: "not_found", 49 * time.Hour: "archived",
			} {
				id := order.FirstID(now.Add(-ago)) + "-7000-8000-000000000001"
				for _, path := range []string{"/v1/orders/", "/v1/reservations/"} {
					got := i.send(http.MethodGet, i.url+path+id+"?customer=ann").body
					if !strings.Contains(got, "/problems/"+want) {
						t.Errorf("%s of %v ago: %s", path, ago, got)
					}
					got = i.send(http.MethodPost, i.url+path+id+"/cancel?customer=ann").body
					if !strings.Contains(got, "/problems/"+want) {
						t.Errorf("cancel %s of %v ago: %s", path, ago, got)
					}
				}
			}
			if check, err := a.Verify(t.Context(), []string{o.Dir}); err == nil {
				t.Errorf("an empty folder: %+v", check)
			}
		})
	}
}

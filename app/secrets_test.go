package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
)

// A unique text in every secret, right or wrong, is in nothing that an instance prints, serves or logs.
func TestNothingSecretIsShown(t *testing.T) {
	t.Parallel()
	const mark = "XkEy7"
	server, root := servers.Redis(t), migrated(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	user := []any{"ACL", "SETUSER", "shop", "on", ">right-" + mark, "~*", "&*", "+@all"}
	if err := admin.Do(t.Context(), user...).Err(); err != nil {
		t.Fatal(err)
	}
	for word, dsn := range map[string]string{"right": root, "wrong": servertest.AsUser(t, root, "nobody", mark)} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			i := begin(t, backends("--redis-url=redis://shop:"+word+"-"+mark+"@"+server.Addr, "--mysql-dsn="+dsn,
				"--zookeeper-hosts=shop:"+mark+"@127.0.0.1:1", "--admin-token=admin-"+mark, "--log-level=debug")...)
			if word == "right" {
				i.ready(t, "redis", "mysql")
			} else {
				servertest.Eventually(t, time.Minute, "all are down", func() (bool, string) {
					return strings.Count(i.log.String(), "backend is down") >= 3, ""
				})
			}
			var shown strings.Builder
			for _, path := range []string{
				"/livez", "/readyz", "/version", "/v1/strategies", "/v1/stock/stock", "/openapi.json", "/nowhere",
			} {
				fmt.Fprintln(&shown, path, i.ask(http.MethodGet, path).body)
			}
			for _, store := range stores() {
				i.ask(http.MethodPut, "/v1/stock/shown?quantity=9&store="+store)
				fmt.Fprintln(&shown, i.ask(http.MethodPost, "/deduct_stock_atomic?sku=shown&store="+store).body)
				fmt.Fprintln(&shown, i.ask(http.MethodPost, "/deduct_stock_lock?sku=shown&store="+store).body)
			}
			fmt.Fprintln(&shown, i.send(http.MethodGet, i.admin+"/metrics").body)
			i.end(t)
			shown.WriteString(i.log.String())
			for line := range strings.Lines(shown.String()) {
				if strings.Contains(line, mark) {
					t.Errorf("shown: %s", line)
				}
			}
			if !strings.Contains(shown.String(), "stock_backend_up") {
				t.Error("the metrics are missing")
			}
		})
	}
}

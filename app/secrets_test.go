package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/words"
	"example.com/stock/lock/locktest/servertest"
)

// secrets returns the settings that are secret.
func secrets() []setting {
	return slices.DeleteFunc(allSettings(), func(s setting) bool { return !s.secret })
}

// Every secret can be in a file, without its last line break, and then the setting itself must not be set.
func TestSecretsInFiles(t *testing.T) {
	bare(t)
	for _, s := range secrets() {
		value := other(t, s).(string)
		path := file(t, "secret", value+"\n")
		t.Run(s.key, func(t *testing.T) {
			t.Setenv(s.env()+"_FILE", path)
			c := mustConfigure(t)
			if got := field(t, c, s.key); got != value {
				t.Errorf("%q, want %q", got, value)
			}
			var text strings.Builder
			c.WriteYAML(&text, words.English)
			if shown := text.String(); !strings.Contains(shown, path) || strings.Contains(shown, value) {
				t.Errorf("stock config shows the secret, or not its file:\n%s", shown)
			}
			if _, err := configure(t, "--config", file(t, "printed.yaml", text.String())); err != nil {
				t.Errorf("what stock config prints: %v", err)
			}
			_, err := configure(t, "--"+s.flag()+"="+value)
			says(t, err, s.key+": ", s.key+"_file", "both", "!"+value)
			t.Setenv(s.env()+"_FILE", path+".no")
			_, err = configure(t)
			says(t, err, s.key+"_file: ", path+".no", "no such file")
		})
	}
}

// A unique text in every secret, given directly or by a file, is in nothing that an instance prints, serves or logs.
func TestNothingSecretIsShown(t *testing.T) {
	t.Parallel()
	const mark = "XkEy7"
	server, root := servertest.Redis(t), migrated(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	password := "right-" + mark
	user := []any{"ACL", "SETUSER", "shop", "on", ">" + password, "~*", "&*", "+@all"}
	if err := admin.Do(t.Context(), user...).Err(); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, redis, mysql string }{
		{"right", password, root}, {"wrong", "wrong-" + mark, servertest.AsUser(t, root, "nobody", mark)},
	} {
		values := map[string]string{
			"admin_token": "admin-" + mark, "redis.password": row.redis, "redis.sentinel_password": mark,
			"mysql.dsn": row.mysql, "zookeeper.credentials": "shop:" + mark,
		}
		for _, how := range []string{"directly", "by files"} {
			t.Run(row.name+" "+how, func(t *testing.T) {
				t.Parallel()
				args := backends("--redis-addrs="+server.Addr, "--redis-username=shop", "--log-level=debug")
				args = slices.DeleteFunc(args, func(a string) bool { return a == "--mysql-dsn=" })
				for _, s := range secrets() {
					value, ok := values[s.key]
					if !ok {
						t.Fatalf("%s has no value here", s.key)
					}
					if how == "directly" {
						args = append(args, "--"+s.flag()+"="+value)
					} else {
						args = append(args, "--"+s.flag()+"-file="+file(t, "secret", value))
					}
				}
				var shown strings.Builder
				mustConfigure(t, args...).WriteYAML(&shown, words.Chinese)
				i := beginWith(t, args...)
				if row.name == "right" {
					i.ready(t, "redis", "mysql")
				} else {
					servertest.Eventually(t, time.Minute, "both are down", func() (bool, string) {
						return strings.Count(i.log.String(), "backend is down") >= 2, ""
					})
				}
				for _, path := range []string{
					"/livez", "/readyz", "/version", "/v1/strategies", "/v1/stock/stock", "/problems/backend_down",
					"/openapi.json", "/nowhere",
				} {
					r := i.ask(http.MethodGet, path)
					fmt.Fprintln(&shown, path, r.body, r.err)
				}
				for _, store := range []string{"redis", "mysql"} {
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
}

// beginWith is begin for a log of every level, and for args that have the operator's token.
func beginWith(t *testing.T, args ...string) *instance {
	t.Helper()
	cfg := mustConfigure(t, append(args, "--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--instance=app-1")...)
	i := &instance{log: &journal{}, patience: 10 * time.Second, ended: make(chan error, 1), client: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	log := slog.New(slog.NewTextHandler(i.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	i.run(t, cfg, log)
	return i
}

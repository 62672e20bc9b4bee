package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"example.com/stock/lock/locktest/server"
)

// OrdersSecret signs the tokens of the order service's customers and staff, who are on this computer.
const OrdersSecret = "the order service of a stack, on this computer alone"

// orders is the first part of the name of an instance of the order service.
const orders = "orders"

// OrdersDSN returns the address of the order service's database at a MySQL, or at a proxy before one, given its URL. It
// is a database of its own, because the demonstration has tables of the same names.
func OrdersDSN(url string) string { return url[:strings.LastIndexByte(url, '/')+1] + "orders" }

// Orders starts n instances of `stock orders serve` in parallel, which sell from the stack's MySQL. Their environment
// has its address and OrdersSecret, then env. Orders returns when each instance is ready. On error it leaves none of
// the n running.
func (s *Stack) Orders(ctx context.Context, n int, env ...string) ([]*server.Server, error) {
	program, err := s.program()
	if err != nil {
		return nil, err
	}
	settings := []string{
		"ORDERS_AUTH_SECRET=" + OrdersSecret, "ORDERS_MYSQL_MIGRATE=true", "ORDERS_HTTP_DRAIN=0s",
		"ORDERS_LOG_LEVEL=warn", "ORDERS_LOG_FORMAT=text",
	}
	if mysql := s.Server(string(server.MySQL)); mysql != nil {
		settings = append(settings, "ORDERS_MYSQL_DSN="+OrdersDSN(mysql.URL))
	}
	env = slices.Concat(foreignEnv("ORDERS_"), settings, env)
	return s.openAll(ctx, n, orders, func(ctx context.Context, name string) (*server.Server, error) {
		return s.Open(ctx, name, s.ordersInstance(program, env))
	})
}

func (s *Stack) ordersInstance(program string, env []string) server.Builder {
	return func(_ context.Context, name, dir string, port int) (*server.Server, error) {
		admin, err := s.Reserve()
		if err != nil {
			return nil, err
		}
		cmd := server.Command{
			Path: program, Args: []string{"orders", "serve"}, Dir: dir, Log: filepath.Join(s.Dir, name+".log"),
		}
		cmd.Env = append(slices.Clip(env),
			"ORDERS_HTTP_ADDRESS="+server.Local(port), "ORDERS_HTTP_OPERATORS="+admin, "ORDERS_INSTANCE="+name)
		ready := func(ctx context.Context) error { return ordersReady(ctx, "http://"+admin, name) }
		s.check(name, ready)
		return &server.Server{
			URL: "http://" + server.Local(port), Admin: "http://" + admin, Log: cmd.Log, Tier: server.Instance,
			Launch: func() (server.Run, error) { return cmd.Start(syscall.SIGKILL) },
			Ready:  func(ctx context.Context, _ int) error { return ready(ctx) },
		}, nil
	}
}

// ordersReady checks that the instance of that name answers, and is ready.
func ordersReady(ctx context.Context, admin, name string) error {
	body, err := get(ctx, admin+"/version", "")
	if err != nil {
		return err
	}
	var about struct{ Instance string }
	if err := json.Unmarshal(body, &about); err != nil || about.Instance != name {
		return fmt.Errorf("%s answered as %q, expected %q", admin, about.Instance, name)
	}
	_, err = get(ctx, admin+"/readyz", "")
	return err
}

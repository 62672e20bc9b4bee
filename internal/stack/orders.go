package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// OrdersSecret signs the tokens of the order service's customers and staff, who are on this computer.
const OrdersSecret = "the order service of a stack, on this computer alone"

// orders is the first part of the name of an instance of the order service.
const orders = "orders"

// ordersDatabase is a database of its own, because the demonstration has tables of the same names.
const ordersDatabase = "orders"

// OrdersDSN returns the address of the order service's database at a MySQL, or at a proxy before one, given its URL.
func OrdersDSN(url string) string { return url[:strings.LastIndexByte(url, '/')+1] + ordersDatabase }

// Orders starts n instances of `stock orders serve` in parallel, which sell from the stack's MySQL. Their environment
// has its address and OrdersSecret, then env. Orders returns when each instance is ready. On error it leaves none of
// the n running.
func (s *Stack) Orders(ctx context.Context, n int, env ...string) ([]*Server, error) {
	program, err := s.program()
	if err != nil {
		return nil, err
	}
	settings := []string{
		"ORDERS_AUTH_SECRET=" + OrdersSecret, "ORDERS_MYSQL_MIGRATE=true", "ORDERS_HTTP_DRAIN=0s",
		"ORDERS_LOG_LEVEL=warn", "ORDERS_LOG_FORMAT=text",
	}
	if mysql := s.Server(string(MySQL)); mysql != nil {
		settings = append(settings, "ORDERS_MYSQL_DSN="+OrdersDSN(mysql.URL))
	}
	env = slices.Concat(foreignEnv("ORDERS_"), settings, env)
	return s.openAll(ctx, n, orders, func(ctx context.Context, name string) (*Server, error) {
		return s.open(ctx, name, s.ordersInstance(program, env))
	})
}

func (s *Stack) ordersInstance(program string, env []string) builder {
	return func(_ context.Context, name, dir string, port int) (*Server, error) {
		admin, err := s.reserve()
		if err != nil {
			return nil, err
		}
		cmd := command{
			path: program, args: []string{"orders", "serve"}, dir: dir, log: filepath.Join(s.Dir, name+".log"),
		}
		cmd.env = append(slices.Clip(env),
			"ORDERS_HTTP_ADDRESS="+local(port), "ORDERS_HTTP_OPERATORS="+local(admin), "ORDERS_INSTANCE="+name)
		server := &Server{
			URL: "http://" + local(port), Admin: "http://" + local(admin), Log: cmd.log, tier: instance, admin: admin,
			launch: func() (run, error) { return cmd.start(syscall.SIGKILL) },
		}
		server.ready = func(ctx context.Context, _ int) error { return server.isOrders(ctx, name) }
		return server, nil
	}
}

// isOrders checks that the instance of that name answers, and is ready.
func (s *Server) isOrders(ctx context.Context, name string) error {
	body, err := get(ctx, s.Admin+"/version", "")
	if err != nil {
		return err
	}
	var about struct{ Instance string }
	if err := json.Unmarshal(body, &about); err != nil || about.Instance != name {
		return fmt.Errorf("%s answered as %q, expected %q", s.Admin, about.Instance, name)
	}
	return s.Ready(ctx)
}

// Ready returns why an instance is not ready.
func (s *Server) Ready(ctx context.Context) error {
	_, err := get(ctx, s.Admin+"/readyz", "")
	return err
}

// Command dev runs the service for development: with a MariaDB that it starts in .dev, or else in a container; with the
// schema; and with tokens of its own. It ends all of it at Ctrl-C, and keeps the data.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"example.com/stock/orders/cmd"
	"example.com/stock/orders/internal/mariadb"
)

const port = 13306

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := filepath.Abs(".dev")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	secret, err := secretIn(filepath.Join(dir, "secret"))
	if err != nil {
		return err
	}
	dsn := os.Getenv("ORDERS_MYSQL_DSN")
	if dsn == "" {
		var end func() error
		if dsn, end, err = database(ctx, dir); err != nil {
			return err
		}
		defer func() {
			if err := end(); err != nil {
				fmt.Fprintln(os.Stderr, "dev: MariaDB:", err)
			}
		}()
	}
	for name, value := range map[string]string{
		"MYSQL_DSN": dsn, "MYSQL_MIGRATE": "true", "AUTH_SECRET": secret, "LOG_FORMAT": "text", "HTTP_DRAIN": "0s",
		"HTTP_ADDRESS": "127.0.0.1:8080", "HTTP_OPERATORS": "127.0.0.1:8081",
	} {
		if name = "ORDERS_" + name; os.Getenv(name) == "" || name == "ORDERS_MYSQL_DSN" {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	if err := tell(ctx, os.Getenv("ORDERS_HTTP_ADDRESS")); err != nil {
		return err
	}
	return command(ctx, "serve")
}

// database starts MariaDB, and returns how to end it.
func database(ctx context.Context, dir string) (dsn string, end func() error, err error) {
	if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		return "", nil, fmt.Errorf("another one runs already: %w", err)
	} else if err := l.Close(); err != nil {
		return "", nil, err
	}
	if _, err := mariadb.Program(); err == nil {
		data := filepath.Join(dir, "mariadb")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return "", nil, err
		}
		server, dsn, err := mariadb.StartIn(data, port)
		if err != nil {
			return "", nil, err
		}
		return dsn, server.End, nil
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		return "", nil, errors.New("neither mariadbd nor docker is there: install one (apt install mariadb-server," +
			" brew install mariadb), or set ORDERS_MYSQL_DSN")
	}
	c := exec.CommandContext(ctx, docker, "run", "--rm", "--name", "orders-dev",
		"-p", fmt.Sprintf("127.0.0.1:%d:3306", port),
		"-e", "MARIADB_RANDOM_ROOT_PASSWORD=1", "-e", "MARIADB_DATABASE=orders", "-e", "MARIADB_USER=orders",
		"-e", "MARIADB_PASSWORD=orders", "-v", "orders-dev:/var/lib/mysql", "mariadb:11.8")
	c.Stderr, c.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return nil } // it is ended by name, and after the service
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	fmt.Println("MariaDB starts in a container; the service is ready when it answers.")
	return fmt.Sprintf("orders:orders@tcp(127.0.0.1:%d)/orders", port), func() error {
		return errors.Join(exec.Command(docker, "stop", "orders-dev").Run(), c.Wait())
	}, nil
}

// secretIn returns the same secret at every start, so that tokens stay valid.
func secretIn(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(rand.Text() + rand.Text())
		err = os.WriteFile(file, text, 0o600)
	}
	return string(text), err
}

// tell prints what to do next.
func tell(ctx context.Context, address string) error {
	customer, err := output(ctx, "token", "--sub", "ann", "--for", "24h")
	if err != nil {
		return err
	}
	staff, err := output(ctx, "token", "--sub", "staff", "--scope", "stock:read stock:write", "--for", "24h")
	if err != nil {
		return err
	}
	fmt.Printf(`
ANN=%s
STAFF=%s
at=http://%s/v1; json='Content-Type: application/json'
curl -X PUT $at/stock/book -H "Authorization: Bearer $STAFF" -H "$json" -d '{"quantity": 10}'
curl $at/orders -H "Authorization: Bearer $ANN" -H "$json" -H 'Idempotency-Key: 7f3a' \
  -d '{"lines": [{"sku": "book", "quantity": 2}]}'

For more tokens: ORDERS_AUTH_SECRET=$(cat .dev/secret) go run ./cmd/orders token --help

`, customer, staff, address)
	return nil
}

func command(ctx context.Context, args ...string) error {
	c := cmd.Command("dev")
	c.SetArgs(args)
	return c.ExecuteContext(ctx)
}

func output(ctx context.Context, args ...string) (string, error) {
	var out strings.Builder
	c := cmd.Command("dev")
	c.SetOut(&out)
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	return strings.TrimSpace(out.String()), err
}

package clienttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const token = "clienttest"

// The document is one that a client generator understands, and the client that it makes of it sells, looks and is
// refused.
func TestTheGeneratedClient(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	redis, public, operators := freeAddr(t), freeAddr(t), freeAddr(t)
	_, port, _ := net.SplitHostPort(redis)
	start(t, "redis-server", []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}, nil)
	stock := filepath.Join(t.TempDir(), "stock")
	must(t, "../..", "go", "build", "-o", stock, "./cmd/stock")
	start(t, stock, []string{"serve"}, []string{
		"STOCK_ADDR=" + public, "STOCK_ADMIN_ADDR=" + operators, "STOCK_ADMIN_TOKEN=" + token, "STOCK_LAB=true",
		"STOCK_INSTANCE=app-1",
		"STOCK_REDIS_URL=redis://" + redis, "STOCK_ZOOKEEPER_HOSTS=", "STOCK_MYSQL_DSN=", "STOCK_DRAIN=0s",
	})
	document := fetch(t, "http://"+public)

	// Below testdata, where "./..." does not look, and in this module, which has what the client needs.
	dir, err := os.MkdirTemp("testdata", "client-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(t.TempDir(), "openapi.json")
	program, err := os.ReadFile("testdata/use.go.txt")
	if err := errors.Join(err, os.WriteFile(path, document, 0o600),
		os.WriteFile(filepath.Join(dir, "use.go"), program, 0o600)); err != nil {
		t.Fatal(err)
	}
	must(t, ".", "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o",
		filepath.Join(dir, "client.go"), path)
	must(t, ".", "go", "run", "./"+dir, "http://"+public, "http://"+operators, token)
}

// fetch waits until the service can sell, and returns its document.
func fetch(t *testing.T, url string) []byte {
	t.Helper()
	began := time.Now()
	for {
		ready, err := http.Get(url + "/readyz")
		if err == nil {
			ready.Body.Close()
			if ready.StatusCode == http.StatusOK {
				break
			}
			err = errors.New(ready.Status)
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("not ready: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	r, err := http.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	document, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// start runs a program until the end of the test. Its output is shown if that fails.
func start(t *testing.T, program string, args, env []string) {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), output, output
	for _, variable := range os.Environ() {
		if len(variable) < 6 || variable[:6] != "STOCK_" {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		output.Close()
		if t.Failed() {
			text, _ := os.ReadFile(output.Name())
			t.Logf("%s:\n%s", program, text)
		}
	})
}

func must(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

// freeAddr is an address on which nothing listens now. Another program may take it before it is used: then the test
// fails, and says so.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr())
}

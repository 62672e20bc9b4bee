package deploy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// entry runs nginx-entry as the composition does, with a DNS that the test writes. It returns the address of the first
// nginx.
func entry(t *testing.T, port string, named func() []string) (addr string, know func()) {
	t.Helper()
	path := nginxPath(t)
	dir, err := os.MkdirTemp("", "entry")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		// It is written beside its place and then moved, because the script may read it at any time.
		if err := os.WriteFile(filepath.Join(dir, name+".new"), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("getent", "#!/bin/sh\ncat "+filepath.Join(dir, "names")+"\n", 0o755)
	know = func() { write("names", strings.Join(named(), " stock\n")+" stock\n", 0o644) }
	know()
	addr = closedPort(t)
	write("shipped.conf", string(Nginx(NginxOptions{Listen: addr, Dir: dir})), 0o644)

	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), "sh", "nginx-entry")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+filepath.Dir(path)+":"+os.Getenv("PATH"), "TMPDIR="+dir,
		"NGINX_SHIPPED="+filepath.Join(dir, "shipped.conf"), "STOCK_UPSTREAM=stock:"+port)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	ordinary(t, cmd, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // t.Context has ended by now, and with it the script, which takes both nginx along
		if err := cmd.Wait(); t.Context().Err() == nil {
			t.Errorf("nginx-entry ended by itself: %v", err)
		}
		if t.Failed() {
			errors, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx-entry said: %s%s", said.String(), errors)
		}
		for _, pid := range []string{"nginx.pid", "nginx-back.pid"} {
			if _, err := os.Stat(filepath.Join(dir, pid)); err == nil {
				t.Errorf("%s is left: that nginx runs on", pid)
			}
		}
	})
	eventually(t, "an instance answers through both nginx", func() bool {
		resp, err := http.Get("http://" + addr + "/livez")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		return resp.StatusCode == http.StatusOK
	})
	return addr, know
}

// A tally counts what customers were answered. lost is what nginx sent to an instance that did not answer (502).
type tally struct{ answered, lost atomic.Int64 }

// customer sends the request, method and path, over and over. It keeps its connection until a reply says that it will
// be closed, and never repeats a request. It pauses between two requests. It returns the first failure. That a store
// stands still, as its disk may, is none: the customer settles the order, or is refused.
func customer(ctx context.Context, addr, request, body string, pause time.Duration, count *tally) error {
	const format = "%s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n" +
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	message := fmt.Sprintf(format, request, os.Getenv("STOCK_ADMIN_TOKEN"), len(body), body)
	var conn net.Conn
	var reader *bufio.Reader
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	for n := 1; ctx.Err() == nil; n++ {
		if conn == nil {
			var err error
			if conn, err = net.DialTimeout("tcp", addr, 10*time.Second); err != nil {
				return err
			}
			reader = bufio.NewReader(conn)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(conn, message); err != nil {
			return fmt.Errorf("request %d: %w", n, err)
		}
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			return fmt.Errorf("request %d: %w", n, err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		unknown := strings.Contains(string(body), "/problems/outcome_unknown")
		switch {
		case err == nil && resp.StatusCode == http.StatusOK:
			count.answered.Add(1)
		case err == nil && resp.StatusCode == http.StatusBadGateway && strings.Contains(string(body), `"sent":true`):
			count.lost.Add(1)
		case err == nil && unknown && strings.HasPrefix(request, "PUT"): // a setting is simply sent again
		case err == nil && unknown:
			written, err := settled(addr, body)
			if err != nil {
				return fmt.Errorf("request %d: %w", n, err)
			}
			if written {
				count.answered.Add(1)
			}
		case err == nil && strings.Contains(string(body), "/problems/backend_down"):
			time.Sleep(time.Second) // nothing was done, and app tests that no instance serves too early
		default:
			return fmt.Errorf("request %d: %d %s %w", n, resp.StatusCode, body, err)
		}
		if resp.Close {
			_ = conn.Close()
			conn = nil
		}
		time.Sleep(pause)
	}
	return nil
}

// settled does what a reply without an outcome asks for, and reports whether the order was written.
func settled(addr string, reply []byte) (bool, error) {
	var unknown struct{ Settle string }
	if err := json.Unmarshal(reply, &unknown); err != nil {
		return false, err
	}
	for range 30 {
		resp, err := http.Post("http://"+addr+unknown.Settle, "", nil)
		if err != nil {
			return false, err
		}
		var order struct{ State string }
		err = json.NewDecoder(resp.Body).Decode(&order)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK {
			return order.State == "written", nil
		}
		time.Sleep(time.Second)
	}
	return false, fmt.Errorf("%s decides nothing in 30 s", unknown.Settle)
}

// customers starts thirty customers. Some pause between requests, so that their connections are idle.
func customers(ctx context.Context, t *testing.T, addr, request, body string, count *tally) (wait func()) {
	t.Helper()
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			if err := customer(ctx, addr, request, body, time.Duration(i%6)*time.Millisecond, count); err != nil {
				t.Errorf("customer %d: %v", i, err)
			}
		})
	}
	return group.Wait
}

// on makes an instance that listens on addr.
func on(t *testing.T, addr string, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", addr, err)
	}
	srv := httptest.NewUnstartedServer(handler)
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// When instances come and go, nginx learns of it without a request being lost: not one on a kept connection, which a
// reload would close while the request is on its way.
func TestReloadLosesNoRequest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: make verify")
	}
	_, port, _ := net.SplitHostPort(closedPort(t))
	var seen [4]atomic.Int64
	var names []string
	for i := range 4 {
		host := "127.0.0." + strconv.Itoa(i+2)
		names = append(names, host)
		on(t, net.JoinHostPort(host, port), func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Method == http.MethodPost {
				seen[i].Add(1)
			}
			answer(w, r)
		})
	}
	var mu sync.Mutex
	current := names[:3]
	addr, know := entry(t, port, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return current
	})

	ctx, stop := context.WithCancel(t.Context())
	var count tally
	wait := customers(ctx, t, addr, "POST /deduct_stock", "{}", &count)
	// Each list names an instance that the one before did not: its first request shows that the reload has happened.
	for round := range 6 {
		mu.Lock()
		current = slices.Concat(names[:round%3], names[round%3+1:])
		fresh := (round + 2) % 3
		if round == 0 {
			fresh = 3
		}
		mu.Unlock()
		before := seen[fresh].Load()
		know()
		eventually(t, "the list is in use", func() bool { return seen[fresh].Load() > before+1 || t.Failed() })
	}
	stop()
	wait()
	var arrived int64
	for i := range seen {
		arrived += seen[i].Load()
	}
	if n, lost := count.answered.Load(), count.lost.Load(); arrived != n || lost > 0 || n == 0 {
		t.Errorf("%d requests were answered, %d were lost, %d arrived", n, lost, arrived)
	}
	t.Logf("%d requests, 6 reloads", arrived)
}

// Part of deploy/compose-test, which restarts every instance of the composition while this sells through it:
// STOCK_COMPOSED is the address, and the load ends when the file STOCK_COMPOSED_UNTIL is there. What was answered, or
// settled, is what was sold. At most one request in a thousand is lost, and not sold: nginx sent it when a listener
// closed.
func TestCompositionSellsWhatItAnswers(t *testing.T) {
	t.Parallel()
	addr, until := os.Getenv("STOCK_COMPOSED"), os.Getenv("STOCK_COMPOSED_UNTIL")
	if addr == "" || until == "" {
		t.Skip("run by deploy/compose-test")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var once, count, reads, sets tally
	first, end := context.WithTimeout(ctx, 900*time.Millisecond) // before the second one is due
	err := customer(first, addr, "PUT /v1/stock/rolling", `{"quantity":1000000}`, time.Second, &once)
	end()
	if err != nil || once.answered.Load() != 1 {
		t.Fatalf("setting the stock: %d times, %v", once.answered.Load(), err)
	}
	var group sync.WaitGroup
	wait := customers(ctx, t, addr, "POST /deduct_stock_atomic?sku=rolling", "", &count)
	for name, other := range map[string]struct {
		request, body string
		count         *tally
	}{
		"a reader":     {"GET /v1/stock/rolling", "", &reads},
		"an operator":  {"PUT /v1/stock/rolling-other", `{"quantity":5}`, &sets},
		"a slow buyer": {"POST /deduct_stock_atomic?sku=rolling", "", &count},
	} {
		group.Go(func() {
			if err := customer(ctx, addr, other.request, other.body, 300*time.Millisecond, other.count); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for tick := time.NewTicker(100 * time.Millisecond); !t.Failed(); <-tick.C {
		if _, err := os.Stat(until); err == nil {
			tick.Stop()
			break
		}
	}
	stop()
	wait()
	group.Wait()
	resp, err := http.Get("http://" + addr + "/v1/stock/rolling")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	var stock struct{ Initial, Quantity, Sold int64 }
	if err := json.NewDecoder(resp.Body).Decode(&stock); err != nil {
		t.Fatal(err)
	}
	lost := count.lost.Load() + reads.lost.Load() + sets.lost.Load()
	if n := count.answered.Load(); stock.Sold != n || stock.Initial-stock.Quantity != n || n == 0 {
		t.Errorf("%d sales were answered, the stock says %+v", n, stock)
	}
	if n := count.answered.Load(); lost > n/1000 {
		t.Errorf("%d requests were lost beside %d sales", lost, n)
	}
	t.Logf("%d sales, %d reads, %d settings, %d lost", count.answered.Load(), reads.answered.Load(),
		sets.answered.Load(), lost)
}

package deploy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// gateway is a running nginx. It listens on a socket in its own folder, so no port can be taken by somebody else in
// between.
type gateway struct {
	t      *testing.T
	dir    string
	client *http.Client
}

// socket is where the gateway listens.
func (g *gateway) socket() string { return filepath.Join(g.dir, "sock") }

// nginxPath finds the server under test. Without it there is nothing to test; in CI that is a failure.
func nginxPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			if os.Getenv("REQUIRE_BACKENDS") == "1" {
				t.Fatal("REQUIRE_BACKENDS=1 and no nginx on PATH")
			}
			t.Skip("no nginx on PATH")
		}
	}
	return path
}

// newGateway runs the shipped rules in front of the given servers, as an ordinary user even where the tests run as
// root. The edits are pairs old, new: shorter times, and what is switched off by default.
func newGateway(t *testing.T, upstreams []string, edits ...string) *gateway {
	t.Helper()
	path := nginxPath(t)
	dir, err := os.MkdirTemp("", "gateway") // short: the name of a socket has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	socket, file := filepath.Join(dir, "sock"), filepath.Join(dir, "nginx.conf")
	text := string(Nginx(NginxOptions{Listen: "unix:" + socket, Upstreams: upstreams, Dir: dir}))
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("nginx.conf has no %q to replace", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), path, "-e", "stderr", "-c", file, "-g", "daemon off;")
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // KILL would orphan the workers
	cmd.WaitDelay = 5 * time.Second
	ordinary(t, cmd, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // t.Context has ended by now, and with it nginx
		_ = cmd.Wait()
		if t.Failed() {
			errors, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx said: %s%s", said.String(), errors)
		}
	})

	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	g := &gateway{t: t, dir: dir, client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	eventually(t, "nginx listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return g
}

// ordinary runs the command as an ordinary user who owns the folder, if the tests run as root.
func ordinary(t *testing.T, cmd *exec.Cmd, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// reply is a response that has been read to its end.
type reply struct {
	*http.Response
	body string
}

// do sends one request and reads the whole reply. The headers come as pairs.
func (g *gateway) do(method, path, body string, headers ...string) reply {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, "http://gateway"+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("%s %s: reading the reply: %v", method, path, err)
	}
	return reply{resp, string(text)}
}

// instance is a server behind the gateway.
type instance struct {
	addr  string
	hits  atomic.Int64 // requests that arrived whole
	conns atomic.Int64 // connections that were opened to it
}

// newInstance serves with the handler once it has counted the request.
func newInstance(t *testing.T, name string, handler http.HandlerFunc) *instance {
	t.Helper()
	in := &instance{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		in.hits.Add(1)
		w.Header().Set("X-Instance", name)
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		handler(w, r)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			in.conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	in.addr = srv.Listener.Addr().String()
	return in
}

// threeInstances makes one instance like the next.
func threeInstances(t *testing.T, handler http.HandlerFunc) (all []*instance, addrs []string) {
	t.Helper()
	for i := range 3 {
		in := newInstance(t, fmt.Sprintf("instance-%d", i+1), handler)
		all, addrs = append(all, in), append(addrs, in.addr)
	}
	return all, addrs
}

func hits(all []*instance) (n int64) {
	for _, in := range all {
		n += in.hits.Load()
	}
	return n
}

// closedPort returns an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not seen within a minute: %s", what)
		}
	}
}

// answer does what a healthy instance does. drop reads the request and hangs up, as an instance that is killed after it
// has deducted.
func answer(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }

func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// reset hangs up with a RST, as the kernel does for a process that had unread data. half sends half a reply first.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func half(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Len")
	_ = conn.Close()
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

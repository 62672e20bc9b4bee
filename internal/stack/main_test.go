package stack_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// The test binary is also the programs that the tests run: `serve`, a small instance, and `orphan`, a parent that is
// to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve":
			serve()
			return
		case "orphan":
			orphan()
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// serve answers /livez and /readyz as an instance does. POST /sell counts, POST /die counts and drops the connection,
// and /count returns the count.
func serve() {
	name := os.Getenv("STOCK_INSTANCE")
	if os.Getenv("FAKE_CRASH") == name {
		fmt.Println("cannot work under these conditions")
		os.Exit(3)
	}
	var sold atomic.Int64
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if os.Getenv("FAKE_UNREADY") != "" {
			http.Error(w, os.Getenv("FAKE_UNREADY"), http.StatusServiceUnavailable)
			return
		}
		if slow, _ := time.ParseDuration(os.Getenv("FAKE_SLOW")); time.Since(began) < slow {
			http.Error(w, `{"backends":{"redis":{"up":false,"reason":"redis is down: not asked yet"}}}`,
				http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"backends":{"redis":{"up":%v,"reason":"no redis yet"},"mysql":{"up":false}}}`,
			os.Getenv("FAKE_DOWN") == "")
	})
	mux.HandleFunc("GET /env",
		func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, os.Getenv(r.URL.Query().Get("key"))) })
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, sold.Load()) })
	mux.HandleFunc("POST /sell", func(w http.ResponseWriter, r *http.Request) {
		sold.Add(1)
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
	})
	var taken []string
	var mu sync.Mutex
	mux.HandleFunc("GET /taken", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprint(w, strings.Join(taken, "\n"))
		taken = nil
	})
	take := func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		taken = append(taken, fmt.Sprintf("%s %s %q %q %v", r.Method, r.URL.Path, r.Header, text, err))
	}
	mux.HandleFunc("/take", take)
	mux.HandleFunc("/v1/locks/", take)
	mux.HandleFunc("/die", func(http.ResponseWriter, *http.Request) {
		sold.Add(1)
		panic(http.ErrAbortHandler)
	})
	server := &http.Server{
		Addr: os.Getenv("STOCK_ADDR"),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Instance", name)
			mux.ServeHTTP(w, r)
		}),
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Println(server.ListenAndServe())
}

// orphan starts servers, says so, and waits to be killed.
func orphan() {
	s, err := stack.Start(context.Background(), stack.Options{Options: server.Options{
		Want: []server.Kind{server.Redis}, Parent: os.Args[2],
	}})
	if err == nil {
		_, err = s.Serve(context.Background(), 1)
	}
	if err == nil {
		_, err = s.Front(context.Background())
	}
	fmt.Println("started", err)
	select {}
}

// start starts a stack. At the end of the test it stops it and checks that nothing is left.
func start(t *testing.T, o stack.Options) *stack.Stack {
	t.Helper()
	s, err := stack.Start(t.Context(), o)
	if err == nil {
		t.Cleanup(func() { servertest.Gone(t, s.Dir) }) // after the stop
	}
	return servertest.StopAtEnd(t, s, err)
}

// need returns the server of that name. It ends the test if the server is missing.
func need(t *testing.T, s *stack.Stack, name string) *server.Server {
	t.Helper()
	if reason := s.Missing()[name]; reason != "" {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return s.Server(name)
}

// within polls until ok returns true, for as long as a busy computer may take.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within 90 s: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

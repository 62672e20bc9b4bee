package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/stock/tools/bench/rig"
)

// TestMain is also the ping service: the contest starts its own program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		main()
		return
	}
	os.Exit(m.Run())
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFlags(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string // part of the error; empty: none
	}{
		{nil, ""},
		{[]string{"--rounds", "1", "--seconds", "1", "--rows", "merged/mysql,ping"}, ""},
		{[]string{"--beside", "HEAD", "--beside-rows", "atomic/mysql,merged/mysql"}, ""},
		{[]string{"--rows", "merged/mysql,nothing"}, `"nothing"`},
		{[]string{"--rounds", "0"}, "--rounds"},
		{[]string{"--seconds", "0"}, "--seconds"},
		{[]string{"--seconds", "0.5"}, "-seconds"},
		{[]string{"--instances", "6"}, "--instances"},
		{[]string{"--beside-rows", "ping"}, "--beside-rows"},
		{[]string{"merged/mysql"}, `"merged/mysql"`},
	} {
		_, err := parse(row.args)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: got %v, want %q in it", row.args, err, row.want)
		}
	}
}

// The default run is to fit into eight minutes: what is measured, and about 0.3 s around each for the books.
func TestTheDefaultRunIsBounded(t *testing.T) {
	s, err := parse([]string{"--beside", "HEAD"})
	if err != nil {
		t.Fatal(err)
	}
	list := jobs(s)
	took := time.Duration(s.rounds*len(list)) * (time.Duration(s.seconds)*time.Second + 300*time.Millisecond)
	if took > 7*time.Minute+30*time.Second {
		t.Errorf("%d measurements in each of %d rounds take %v", len(list), s.rounds, took)
	}
	for i, j := range list {
		if j.Load == due && i < len(list)-3 {
			t.Errorf("%s is measured before the row that gives it its rate", j)
		}
	}
}

func TestPingLogsOneLineForEachRequest(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server := &http.Server{Handler: pinging("app-1", &log)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	for range 3 {
		res, err := http.Post("http://"+listener.Addr().String()+"/ping", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK || res.Header.Get("X-Instance") != "app-1" {
			t.Errorf("got %d from %q", res.StatusCode, res.Header.Get("X-Instance"))
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-served
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines for 3 requests:\n%s", len(lines), log.String())
	}
}

// needed skips a test whose programs are missing, or fails it where they must be there.
func needed(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if strings.Contains(err.Error(), "not found on PATH") && os.Getenv("REQUIRE_BACKENDS") == "" {
		t.Skip(err)
	}
	t.Fatal(err)
}

// One short run with real servers: all is measured, the books balance, and nothing is left running. Then the books are
// cooked, and that is found out.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, err := parse([]string{"--rounds", "1", "--seconds", "1", "--rows", "merged/redis,ping", "--instances", "2"})
	if err != nil {
		t.Fatal(err)
	}
	root, err := rig.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := open(ctx, s, root)
	needed(t, err)
	defer c.close()
	r, err := c.measure(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 5 {
		t.Errorf("%d rows, want merged/redis sold with 30 and 128 and refused, and ping with both", len(r.Rows))
	}
	for _, s := range r.Rows {
		o := s.Rounds[0]
		if o.Done == 0 || o.Rate <= 0 || o.P99 <= 0 || o.CPU[rig.PartService] <= 0 || o.CPU[rig.PartNginx] <= 0 ||
			len(o.Other) > 0 || o.Bytes <= 0 {
			t.Errorf("%s: %+v", s.job, o)
		}
	}
	if s := r.find("merged/redis", sold, many, false).Rounds[0]; s.Counts["redis scripts"] >= 0.9 {
		t.Errorf("%g scripts for each sale: nothing was merged", s.Counts["redis scripts"])
	}
	cookTheBooks(ctx, t, c)
	folder := c.main.Stack.Dir
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", folder, err)
	}
	if err := c.main.Alive(); err == nil || !strings.Contains(err.Error(), "has died") {
		t.Errorf("servers that were stopped are alive: %v", err)
	}
}

func cookTheBooks(ctx context.Context, t *testing.T, c *contest) {
	t.Helper()
	const sku, list = "cooked", "stock:{cooked}:orders"
	stock, err := c.main.SetStock(ctx, "redis", sku, 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.main.Balance(ctx, "redis", sku, 0, 0); err != nil {
		t.Errorf("nothing was sold: %v", err)
	}
	if _, err := c.main.Balance(ctx, "redis", sku, 1, 5); !errors.Is(err, rig.ErrBooks) {
		t.Errorf("a sale that the store does not have: %v", err)
	}
	if err := c.main.Redis.RPush(ctx, list, "{}").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.main.Balance(ctx, "redis", sku, 0, 5); !errors.Is(err, rig.ErrBooks) {
		t.Errorf("an order without a sale: %v", err)
	}
	if err := errors.Join(c.main.Redis.LPop(ctx, list).Err(),
		c.main.Redis.HSet(ctx, "stock:{cooked}", "quantity", stock.Initial-1).Err()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.main.Balance(ctx, "redis", sku, 0, 5); !errors.Is(err, rig.ErrBooks) {
		t.Errorf("a unit that is gone: %v", err)
	}
}

//go:build unix

package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/stock/lock/locktest/servertest"
)

// BenchmarkSell is a sale over HTTP: the whole instance as "stock serve" has it, with its log, its metrics and a real
// store, without nginx. Allocations and CPU time are of the instance and of its clients, who take next to none: they
// send the same bytes again and look for the status and the end of the reply.
//
//	go test ./app -run '^$' -bench Sell -benchmem -count 5
func BenchmarkSell(b *testing.B) {
	url := startQuietly(b, "--redis-url=redis://"+servers.Redis(b).Addr, "--mysql-dsn="+servers.MariaDB(b))
	for _, strategy := range []string{"merged", "atomic"} {
		for _, store := range []string{"redis", "mysql"} {
			for _, stock := range []string{"sold", "sold_out"} {
				b.Run(fmt.Sprintf("strategy=%s/store=%s/%s", strategy, store, stock), func(b *testing.B) {
					quantity, status := "1000000000", "200"
					if stock == "sold_out" {
						quantity, status = "0", "409"
					}
					sku := fmt.Sprintf("bench-%s-%s-%s", strategy, store, stock)
					put(b, url+"/v1/stock/"+sku+"?store="+store+"&quantity="+quantity)
					// What nginx sends.
					ask := fmt.Sprintf("POST /deduct_stock_%s?sku=%s&store=%s HTTP/1.1\r\nHost: stock\r\n"+
						"X-Request-Id: 0123456789abcdef0123456789abcdef\r\nX-Forwarded-For: 127.0.0.1\r\n"+
						"Content-Length: 0\r\n\r\n", strategy, sku, store)
					saturate(b, strings.TrimPrefix(url, "http://"), []byte(ask), status)
				})
			}
		}
	}
}

// startQuietly starts an instance that logs as in production, to nowhere. The end of the benchmark stops it.
func startQuietly(b *testing.B, args ...string) (url string) {
	b.Helper()
	args = append(args, "--addr=127.0.0.1:0", "--instance=app-1", "--admin-token="+token)
	cfg := mustConfigure(b, backends(args...)...)
	a, err := New(cfg, "test", NewLogger(io.Discard, cfg))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-ended
	})
	url = "http://" + a.Addr().String()
	servertest.Eventually(b, 20*time.Second, "the instance is ready", func() (bool, string) {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK, res.Status
	})
	return url
}

func put(b *testing.B, url string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPut, url, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b.Fatal(res.Status)
	}
}

// saturate sends b.N requests on 128 connections, each after the reply to the one before.
func saturate(b *testing.B, addr string, ask []byte, status string) {
	b.Helper()
	const connections = 128
	turns := make(chan struct{}, b.N)
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	var clients []*rawClient
	for range min(connections, b.N) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, &rawClient{Conn: c, text: make([]byte, 8<<10)})
	}
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for range turns {
				if err := c.exchange(ask, status); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// cpu is the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A rawClient is a client without allocations.
type rawClient struct {
	net.Conn
	text []byte
}

// exchange sends a request and reads its reply.
func (w *rawClient) exchange(ask []byte, status string) error {
	if _, err := w.Write(ask); err != nil {
		return err
	}
	n := 0
	for {
		more, err := w.Read(w.text[n:])
		if err != nil {
			return err
		}
		n += more
		text := w.text[:n]
		head := bytes.Index(text, []byte("\r\n\r\n"))
		if head < 0 {
			continue
		}
		if string(text[len("HTTP/1.1 "):][:len(status)]) != status {
			return fmt.Errorf("want %s, got %s", status, text)
		}
		_, after, _ := bytes.Cut(text[:head], []byte("Content-Length: "))
		digits, _, _ := bytes.Cut(after, []byte("\r\n"))
		length, err := strconv.Atoi(string(digits))
		if err != nil {
			return fmt.Errorf("no length in %s", text)
		}
		if n >= head+4+length {
			return nil
		}
	}
}

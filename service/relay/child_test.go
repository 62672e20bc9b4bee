package relay_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock/mysqllock"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/relay"
)

// Tests that kill or pause a relay run it in a process of its own: this program, with childMode in its environment.
const (
	childMode  = "RELAY_TEST_CHILD" // "mark": hang before the record; "publish": hang before event 5
	childDSN   = "RELAY_TEST_DSN"
	childRedis = "RELAY_TEST_REDIS"
)

const childLease = time.Second

// hanging is a sink that takes nothing: it says that it was called, and waits for the end.
type hanging struct{ at chan struct{} }

func (h *hanging) Deliver(ctx context.Context, _ relay.Event) error {
	h.at <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// child is a relay that tells on its output where it is.
func child() {
	s, err := openShelf(os.Getenv(childDSN))
	if err != nil {
		fmt.Println(err)
		return
	}
	client := redis.NewClient(redisOptions(os.Getenv(childRedis)))
	locks := mysqllock.NewTable(s.db, mysqllock.TableOptions{Lease: childLease})
	slow := &stubborn{Sink: relay.NewStreams(client, nil), Outbox: s, mode: os.Getenv(childMode)}
	c := quick(s, slow, locks)
	c.Outbox = slow
	if slow.mode == "publish" {
		c.Batch = 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	relay.New(c).Run(ctx)
}

// stubborn does not heed the end of its ctx, as a process that sleeps at the wrong moment: what it sends late is sent.
type stubborn struct {
	relay.Sink
	order.Outbox
	mode  string
	fence atomic.Uint64 // of its lock
}

func (s *stubborn) Deliver(ctx context.Context, e relay.Event) error {
	if s.mode != "publish" || e.Data.Number != 5 {
		return s.Sink.Deliver(ctx, e)
	}
	fmt.Println("at 5")
	time.Sleep(time.Second) // the test stops this process here
	ctx = context.WithoutCancel(ctx)
	err := s.Sink.Deliver(ctx, e)
	fmt.Println("published late:", err)
	d := order.Delivered{SKU: e.Data.SKU, Number: e.Data.Number}
	err = s.Outbox.Delivered(ctx, d, s.fence.Load())
	fmt.Println("refused late:", errors.Is(err, service.ErrStaleFence))
	return err
}

func (s *stubborn) Delivered(ctx context.Context, d order.Delivered, fence uint64) error {
	s.fence.Store(fence)
	if s.mode != "mark" {
		return s.Outbox.Delivered(ctx, d, fence)
	}
	fmt.Println("published", d.Number)
	select {} // until it is killed
}

// A process is a relay of its own.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func spawn(t *testing.T, mode, dsn, addr string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode, childDSN+"="+dsn, childRedis+"="+addr)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{cmd, bufio.NewScanner(out)}
}

// says waits for a line that begins so.
func (p *process) says(t *testing.T, prefix string) {
	t.Helper()
	for p.lines.Scan() {
		if strings.HasPrefix(p.lines.Text(), prefix) {
			return
		}
	}
	t.Fatalf("the relay ended without saying %q", prefix)
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// stream returns the ids of a stream.
func stream(t *testing.T, client *redis.Client, sku service.SKU) (ids []uint64) {
	t.Helper()
	entries, err := client.XRange(t.Context(), relay.StreamKey(sku), "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		var n uint64
		if _, err := fmt.Sscanf(entry.ID, "%d-0", &n); err != nil {
			t.Fatal(entry.ID, err)
		}
		ids = append(ids, n)
	}
	return ids
}

// A relay that is killed after it has published, and before it has recorded that, loses nothing and doubles nothing.
func TestARelayKilledBetweenPublishAndMark(t *testing.T) {
	t.Parallel()
	s, dsn := newShelf(t)
	server := stacktest.Redis(t)
	client := dialRedis(t, server.Addr)
	s.receive(t, "a", 10)
	p := spawn(t, "mark", dsn, server.Addr)
	p.says(t, "published 10")
	p.signal(t, syscall.SIGKILL)
	if n := s.delivered(t, "a"); n != 0 {
		t.Fatalf("%d recorded as delivered: the relay was not killed between the two", n)
	}
	if got := stream(t, client, "a"); !slices.Equal(got, numbers(10)) {
		t.Fatalf("stream %v: what is recorded must have been published", got)
	}
	sink := &diary{Sink: relay.NewStreams(client, nil)}
	s.receive(t, "a", 10)
	start(t, quick(s, sink, mysqllock.NewTable(s.db, mysqllock.TableOptions{Lease: childLease})))
	emptied(t, s)
	if got := sink.of("a"); !slices.Equal(got, numbers(20)) {
		t.Errorf("delivered by the second relay: %v, want all from 1, because nothing was recorded", got)
	}
	if got := stream(t, client, "a"); !slices.Equal(got, numbers(20)) {
		t.Errorf("stream: %v", got)
	}
}

// A relay that is paused past its lease while it is about to publish wakes up when another has gone on. What it
// publishes late is refused by the stream, and what it records by the fence.
func TestTwoRelaysOneOfThemPaused(t *testing.T) {
	t.Parallel()
	s, dsn := newShelf(t)
	server := stacktest.Redis(t)
	client := dialRedis(t, server.Addr)
	s.receive(t, "a", 10)
	p := spawn(t, "publish", dsn, server.Addr)
	p.says(t, "at 5")
	p.signal(t, syscall.SIGSTOP)
	locks := mysqllock.NewTable(s.db, mysqllock.TableOptions{Lease: childLease})
	start(t, quick(s, relay.NewStreams(client, nil), locks))
	emptied(t, s)
	p.signal(t, syscall.SIGCONT)
	p.says(t, "published late: <nil>") // a repeat is no failure
	p.says(t, "refused late: true")
	if got := stream(t, client, "a"); !slices.Equal(got, numbers(10)) {
		t.Errorf("stream: %v", got)
	}
	s.receive(t, "a", 5)
	emptied(t, s)
	if got := stream(t, client, "a"); !slices.Equal(got, numbers(15)) {
		t.Errorf("stream: %v", got)
	}
}

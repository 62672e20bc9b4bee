package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
)

// On SIGTERM an instance first reports that it is not ready, while it still serves. Then it accepts no more requests,
// and finishes those in flight: the holder of the lock, and the waiter. When the instance is gone, so is its lock.
func TestShutdownFinishesWhatItHas(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t).Addr
	// The drain only has to be long enough to be seen.
	i := begin(t, backends("--redis-url=redis://"+addr, "--seed-sku="+own(t), "--lab", "--drain=4s", "--stop=2m")...)
	i.ready(t, "redis")
	holder := i.later(http.MethodPost, "/deduct_stock_redisson?pause=before_write")
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	locked := func() bool { return client.Exists(context.Background(), "watchdog:{"+own(t)+"}").Val() == 1 }
	i.paused(t, 1)
	waiter := i.later(http.MethodPost, "/deduct_stock_redisson?wait=60s")
	inFlight(t, i, 2)

	i.cancel()
	servertest.Eventually(t, time.Minute, "/readyz says that it is draining", func() (bool, string) {
		r := i.ask(http.MethodGet, "/readyz")
		return r.status == http.StatusServiceUnavailable && r.field("status") == "draining", r.body
	})
	if r := i.ask(http.MethodPost, "/deduct_stock_atomic?sku=none-such"); r.status != http.StatusNotFound {
		t.Errorf("while draining: %d %s %v, want an answer as ever", r.status, r.body, r.err)
	}
	servertest.Eventually(t, 10*time.Second, "the listener is closed", func() (bool, string) {
		r := i.ask(http.MethodGet, "/livez")
		return r.err != nil, r.body
	})
	if !locked() {
		t.Error("the lock is not held any more when the listener closes")
	}
	i.goOn(t)
	for name, answer := range map[string]<-chan reply{"the holder": holder, "the waiter": waiter} {
		if r := <-answer; r.err != nil || r.status != http.StatusOK {
			t.Errorf("%s got %d %s %v, want its order", name, r.status, r.body, r.err)
		}
	}
	i.end(t)
	if locked() {
		t.Error("the lock is still there")
	}
}

// paused waits until that many sales stand at a pause point.
func (i *instance) paused(t *testing.T, n int) {
	t.Helper()
	servertest.Eventually(t, time.Minute, "a sale is in its critical section", func() (bool, string) {
		r := i.send(http.MethodGet, i.admin+"/v1/lab/pauses")
		pauses, _ := r.field("pauses").([]any)
		return len(pauses) == n, r.body
	})
}

// goOn lets the sales go on that stand at a pause point.
func (i *instance) goOn(t *testing.T) {
	t.Helper()
	if r := i.send(http.MethodDelete, i.admin+"/v1/lab/pauses"); r.status != http.StatusOK {
		t.Errorf("release: %d %s %v", r.status, r.body, r.err)
	}
}

// inFlight waits until that many requests are in flight, besides its own. It calls more before each look.
func inFlight(t *testing.T, i *instance, n int, more ...func()) {
	t.Helper()
	before := int64(0) // two looks: a request that has had its reply may still be counted by the first
	servertest.Eventually(t, 10*time.Second, "the requests have arrived", func() (bool, string) {
		for _, send := range more {
			send()
		}
		active := i.arrived.active.Load()
		enough := min(active, before) >= int64(n)
		before = active
		return enough, fmt.Sprint(active, " are being served")
	})
}

// arrivals is a listener that counts the open connections that have sent something. A client of these tests has a
// connection for each request.
type arrivals struct {
	net.Listener
	active atomic.Int64
}

func (a *arrivals) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &arrival{TCPConn: conn.(*net.TCPConn), active: &a.active}, nil
}

type arrival struct {
	*net.TCPConn
	active      *atomic.Int64
	sent, ended sync.Once
}

func (a *arrival) Read(b []byte) (int, error) {
	n, err := a.TCPConn.Read(b)
	if n > 0 {
		a.sent.Do(func() { a.active.Add(1) })
	}
	return n, err
}

func (a *arrival) Close() error {
	a.ended.Do(func() {
		sent := true
		a.sent.Do(func() { sent = false }) // no later Read counts it
		if sent {
			a.active.Add(-1)
		}
	})
	return a.TCPConn.Close()
}

// A request that waits longer than Stop is ended with an answer, not a broken connection. The answer says that trying
// again helps.
func TestShutdownTellsWaitersToLeave(t *testing.T) {
	t.Parallel()
	i := begin(t, append(everything(t), "--lab", "--stop=300ms", "--lock-setnx-lease=1m", "--seed-sku="+own(t))...)
	i.ready(t, "redis", "zookeeper", "mysql")
	holders, waiters := make(map[string]<-chan reply), make(map[string]<-chan reply)
	for _, row := range []struct{ endpoint, store string }{
		{"/deduct_stock_sync", "redis"},
		{"/deduct_stock_redisson", "redis"},
		{"/deduct_stock_lock", "redis"},
		{"/deduct_stock_zk", "redis"},
		{"/deduct_stock_pessimistic", "mysql"},
	} {
		sku := own(t) + strings.ReplaceAll(row.endpoint, "/", "-")
		i.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=100&store="+row.store, 200)
		query := row.endpoint + "?sku=" + sku + "&store=" + row.store
		holders[row.endpoint] = i.later(http.MethodPost, query+"&pause=before_write")
		i.paused(t, len(holders))
		waiters[row.endpoint] = i.later(http.MethodPost, query+"&wait=60s")
		inFlight(t, i, len(holders)+len(waiters))
	}
	i.cancel()
	for endpoint, answer := range waiters {
		if r := <-answer; r.err != nil || r.status != http.StatusServiceUnavailable || name(r) != "lock_busy" {
			t.Errorf("%s: a waiter got %d %s %v, want 503 lock_busy", endpoint, r.status, r.body, r.err)
		}
	}
	i.goOn(t)
	for endpoint, answer := range holders {
		if r := <-answer; r.err != nil || r.status != http.StatusOK {
			t.Errorf("%s: the holder got %d %s %v, want its order: it was in its critical section", endpoint, r.status,
				r.body, r.err)
		}
	}
	i.end(t)
	_, log, _ := strings.Cut(i.log.String(), "stopping: no longer ready")
	if !strings.Contains(log, "cancelling the waits of running requests") || strings.Contains(log, "level=ERROR") {
		t.Errorf("its log:\n%s", log)
	}
}

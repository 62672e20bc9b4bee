package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/handler/access/issuer"
	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/loadtest"
)

// token is that of the operator. The instances listen on this computer only.
const token = "operator"

// sku is the SKU that the runbooks use in their commands.
const sku = "book"

// A bed has the servers and instances of one failure, and who watches them. Its methods panic with a stop if they
// cannot do what they are for.
type bed struct {
	ctx     context.Context
	program string // stock
	stack   *stack.Stack
	apps    []*stack.Server
	env     []string // of the instances
	*monitor
	row  *failure
	book *pages

	// front and sick are where a runbook says http://localhost:8080, and 127.0.0.1:8088 or :9090.
	front, sick *stack.Server

	crowd   sync.WaitGroup
	going   sync.RWMutex // held for reading during each sale of the crowd, for writing while there is none
	sold    atomic.Int64
	path    atomic.Pointer[string] // to which the crowd posts
	end     context.CancelFunc
	closers []func()

	// What single failures need.
	link        *wire.Proxy // in front of a server; see throughProxy
	held        *halted     // a sale that holds a lock
	leave       func()      // ends further customers
	unsure      string      // id of an order of which the outcome is unknown
	key, record string      // of Redis, and what it should be
	bearer      string      // token of the customer; "": none
	issuer      *issuer.Issuer
	cluster     *stack.RedisCluster
	galera      *stack.Galera
	sentinels   *stack.Sentinels
	answer      atomic.Int32 // status of the replies of the receiver of events
	pipe        string       // takes the log of the first instance
	unread      atomic.Bool  // nobody reads the pipe
	readers     sync.WaitGroup
}

// A stop ends the run of a failure.
type stop struct{ error }

func (b *bed) fatalf(format string, args ...any) { panic(stop{fmt.Errorf(format, args...)}) }

func (b *bed) must(doing string, err error) {
	if err != nil {
		b.fatalf("%s: %w", doing, err)
	}
}

// open starts what a failure needs. Time limits of the service are long, so that a busy computer breaks none of them.
func open(ctx context.Context, program, rules string, f *failure, factor int) (b *bed) {
	b = &bed{program: program, row: f}
	b.ctx, b.end = context.WithCancel(ctx)
	began := false
	defer func() {
		if !began {
			b.close()
		}
	}()
	var err error
	b.stack, err = stack.Start(b.ctx, stack.Options{
		Want: f.Needs, AOF: !f.Forgets, More: f.More, Binary: program, AnyPort: true, Env: []string{
			"STOCK_LAB=true", "STOCK_ADMIN_TOKEN=" + token, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s", "STOCK_STOP=1s",
			"STOCK_REDIS_TIMEOUT=5s", "STOCK_SEED_SKU=",
		},
	})
	b.must("start servers", err)
	if missing := b.stack.Missing(); len(missing) > 0 {
		b.fatalf("%v", missing)
	}
	n := max(1, f.Instances)
	if f.Own != nil {
		b.apps, err = b.stack.Serve(b.ctx, 1, f.Own(b)...)
		b.must("start the first instance", err)
		n--
	}
	if f.Env != nil {
		b.env = f.Env(b)
	}
	more, err := b.stack.Serve(b.ctx, n, b.env...)
	b.must("start instances", err)
	b.apps = append(b.apps, more...)
	b.front, b.sick = b.apps[0], b.apps[0]
	var targets []string
	for _, app := range b.apps {
		targets = append(targets, strings.TrimPrefix(app.Admin, "http://"))
	}
	if f.Prepare != nil {
		f.Prepare(b)
	}
	b.monitor, err = watch(b.ctx, b.stack, rules, factor, targets)
	b.must("start Prometheus", err)
	began = true
	return b
}

func (b *bed) close() {
	b.end()
	b.crowd.Wait()
	for _, f := range slices.Backward(b.closers) {
		f()
	}
	b.readers.Wait()
	if b.monitor != nil {
		b.monitor.close()
	}
	if b.stack == nil {
		return
	}
	for _, app := range b.apps {
		_ = app.Kill()
	}
	_ = b.stack.Stop()
}

func (b *bed) after(f func()) { b.closers = append(b.closers, f) }

// server returns a server by its name.
func (b *bed) server(name string) *stack.Server {
	s := b.stack.Server(name)
	if s == nil {
		b.fatalf("%s was not started", name)
	}
	return s
}

// proxy returns a proxy in front of a server.
func (b *bed) proxy(s *stack.Server, p wire.Protocol) *wire.Proxy {
	proxy, err := wire.Listen(s.Addr, p)
	b.must("open a proxy", err)
	b.after(func() { _ = proxy.Close() })
	return proxy
}

// client speaks to an instance, as the operator.
func (b *bed) client(app *stack.Server) *loadtest.Client {
	c, err := loadtest.NewClient(app.URL, token, 0)
	b.must("a client", err)
	return c
}

// operator speaks to the listener for operators of an instance.
func (b *bed) operator(app *stack.Server) *loadtest.Client {
	c, err := loadtest.NewClient(app.Admin, token, 0)
	b.must("a client", err)
	return c
}

// units are so many that they last.
const units = 1_000_000

// fill puts units on sale.
func (b *bed) fill(store, name string) {
	_, err := b.client(b.apps[0]).SetStock(b.ctx, store, name, units)
	b.must("set the stock", err)
}

// post sends a request to an instance and returns status and problem. The status is 0 without a reply.
func (b *bed) post(client *http.Client, address, body string) (status int, err error) {
	request, err := http.NewRequestWithContext(b.ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if b.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+b.bearer)
	}
	reply, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_ = reply.Body.Close()
	return reply.StatusCode, nil
}

// customers lets n customers buy by the endpoint, each again after a pause, until leave or the end. It returns when
// enough has been sold that one failed sale is below every objective.
func (b *bed) customers(n int, pause time.Duration, endpoint string, enough int64) (leave func()) {
	b.path.Store(&endpoint)
	ctx, leave := context.WithCancel(b.ctx)
	for i := range n {
		app := b.apps[i%len(b.apps)]
		b.crowd.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for loadtest.Sleep(ctx, pause) == nil {
				b.going.RLock()
				status, err := b.post(client, app.URL+*b.path.Load(), "")
				b.going.RUnlock()
				if err == nil && status/100 == 2 {
					b.sold.Add(1)
				}
			}
		})
	}
	b.eventually("enough is sold", func() bool { return b.sold.Load() >= enough })
	return leave
}

// buyBy makes the customers buy by another endpoint.
func (b *bed) buyBy(endpoint string) { b.path.Store(&endpoint) }

// atRest runs f while no customer waits for a reply.
func (b *bed) atRest(f func()) {
	b.going.Lock()
	defer b.going.Unlock()
	f()
}

// patience ends a wait that would last for ever. It decides no verdict.
const patience = 2 * time.Minute

// eventually waits for something that must happen, whatever Prometheus does.
func (b *bed) eventually(what string, so func() bool) {
	for began := time.Now(); !so(); {
		if time.Since(began) > patience {
			b.fatalf("not within %v: %s", patience, what)
		}
		b.must(what, loadtest.Sleep(b.ctx, 20*time.Millisecond))
	}
}

// evaluations returns how often Prometheus has evaluated the rules.
func (b *bed) evaluations() int {
	n, _, err := b.iterations(b.ctx)
	b.must("ask Prometheus", err)
	return n
}

var errTooLong = errors.New("it does not become so")

// await waits until so returns true, for at most that many evaluations of the rules. It ends without a verdict if
// Prometheus evaluates nothing any more.
func (b *bed) await(what string, most int, so func() bool) (took int) {
	from := b.evaluations()
	last, since := from, time.Now()
	for !so() {
		now := b.evaluations()
		if now != last {
			last, since = now, time.Now()
		}
		switch {
		case now-from > most:
			b.fatalf("%s: not within %d evaluations of the rules: %w", what, most, errTooLong)
		case time.Since(since) > patience:
			b.fatalf("%s: Prometheus has evaluated nothing for %v", what, patience)
		}
		b.must(what, loadtest.Sleep(b.ctx, 50*time.Millisecond))
	}
	return b.evaluations() - from
}

// shell runs a command of a person, who has the settings of the instances.
func (b *bed) shell(command string) (output string, err error) {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "STOCK_") })
	env = append(slices.Concat(env, b.stack.Env(), b.env), "STOCK_ADMIN_TOKEN="+token, "STOCK_LANG=en",
		"PATH="+filepath.Dir(b.program)+":"+os.Getenv("PATH"))
	return run(b.ctx, env, b.stack.Dir, command)
}

// usualPause is how long a customer waits before he buys again.
const usualPause = 40 * time.Millisecond

// redis sends a command to the first Redis, and returns the reply.
func (b *bed) redis(command ...any) any {
	c := redis.NewClient(&redis.Options{Addr: b.server("redis").Addr, MaxRetries: -1})
	defer c.Close()
	reply, err := c.Do(b.ctx, command...).Result()
	b.must(fmt.Sprint(command...), err)
	return reply
}

// sql executes a statement in MySQL, as a hand in the database does.
func (b *bed) sql(statement string) {
	db, err := sql.Open("mysql", b.server("mysql").URL)
	b.must("open MySQL", err)
	defer db.Close()
	_, err = db.ExecContext(b.ctx, statement)
	b.must(statement, err)
}

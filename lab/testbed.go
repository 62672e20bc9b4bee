package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/mysqlconn"
	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// Patience is how long a scenario waits for an event that must happen. It keeps a run from hanging, and decides no
// verdict.
const Patience = 60 * time.Second

// A Testbed gives a scenario one case, a SKU of its own, instances, servers, faults, and a record of evidence and
// events.
//
// Its methods do not return errors. An error of the testbed itself stops the scenario, as t.Fatal stops a test, and the
// cell has no verdict. So the methods must be called from the goroutine that runs the scenario.
type Testbed struct {
	Ctx      context.Context
	Case     Case
	Promise  StrategyPromise // of the Case's strategy
	Strategy Strategy        // the zero value for code of the lab
	SKU      string

	fleet *fleet
	own   *fleet // nil: the case shares the fleet
	o     stack.Options
	says  Texts // the scenario's
	owned sync.WaitGroup
	end   context.CancelCauseFunc

	apps    []*App     // returned by Apps
	calls   []*Call    // in the order of Begin
	watch   *lockWatch // of the case's lock; nil: not begun
	initial int64
	epoch   uint64
	redis   *redis.Client
	after   time.Duration // see Delayed
	closers []func()      // last first

	timeline Timeline

	mu       sync.Mutex
	told     map[string][]Step // by request
	evidence []Evidence
	unsaid   []error // missing texts
}

// A failure stops a scenario.
type failure struct{ err error }

// Fatalf stops the scenario, without a verdict.
func (b *Testbed) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Must stops the scenario if err is not nil.
func (b *Testbed) Must(doing string, err error) {
	if err != nil {
		b.Fatalf("%s: %w", doing, err)
	}
}

// Require stops the scenario unless so is true. what names the condition.
func (b *Testbed) Require(so bool, what string) {
	if !so {
		b.Fatalf("it is not so: %s", what)
	}
}

// Delayed is the outcome that other customers waited for d.
func (b *Testbed) Delayed(d time.Duration) Outcome {
	b.after = d
	return Delays
}

// Store returns the store of this case's stock.
func (b *Testbed) Store() string {
	if b.Case.Store != "" {
		return b.Case.Store
	}
	return b.Strategy.DefaultStore
}

// Calls returns the requests of this case, in the order of Begin.
func (b *Testbed) Calls() []*Call { return b.calls }

// Apps returns n instances, with env (KEY=value) added to baseEnv. It reuses instances of earlier cases with the same
// env. Within a case, each call returns the same first ones.
func (b *Testbed) Apps(n int, env ...string) []*App {
	list, err := b.fleet.apps(b.Ctx, n, env...)
	b.Must("start instances", err)
	for _, app := range list {
		if !slices.Contains(b.apps, app) {
			b.apps = append(b.apps, app)
			b.follow(app)
		}
	}
	return list
}

// AwaitReady waits until the instances report that their servers are up again.
func (b *Testbed) AwaitReady(apps []*App) {
	b.Must("await the instances", b.fleet.ready(b.Ctx, apps))
}

// Fresh starts servers for this case alone, which may damage them. They stop with the case. Call it first.
func (b *Testbed) Fresh(o server.Options, needs ...Need) {
	own, err := openFleet(b.Ctx, stack.Options{Options: o, Binary: b.o.Binary}, needs)
	b.Must("start servers of its own", err)
	b.fleet, b.own = own, own
}

// Stack returns the servers of this case.
func (b *Testbed) Stack() *stack.Stack { return b.fleet.stack }

// Server returns the first server of that need.
func (b *Testbed) Server(need Need) *server.Server {
	first := b.fleet.stack.Server(string(need))
	if first == nil {
		b.Fatalf("%s was not started: is it among the Needs?", need)
	}
	return first
}

// Redis returns a client of the first Redis, for evidence and for the lab's own code.
func (b *Testbed) Redis() *redis.Client {
	if b.redis == nil {
		b.redis = b.RedisAt(b.Server(NeedRedis).Addr)
	}
	return b.redis
}

// RedisAt returns a client of a Redis at host:port, such as a node of Redlock or a proxy. It never retries.
func (b *Testbed) RedisAt(addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr:                  addr,
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		ReadTimeout:           Patience,
		DialTimeout:           Patience,
	})
	b.Defer(func() { _ = c.Close() })
	return c
}

// TTL returns and records the time to live of a key as Redis reports it: -1 for a key without an expiry, -2 for a
// missing key.
func (b *Testbed) TTL(key string) time.Duration {
	ttl, err := b.Redis().PTTL(b.Ctx, key).Result()
	b.Must("PTTL "+key, err)
	shown := fmt.Sprint(ttl)
	if ttl < 0 {
		shown = fmt.Sprint(int64(ttl))
	}
	b.prove(Served, ttl.Milliseconds(), say("says.pttl", "key", key, "ttl", shown))
	b.Statement("redis", "", fmt.Sprintf("PTTL %s = %s", key, shown))
	return ttl
}

// DB returns an empty database on the first server of a need for the lab's own code, with a pool of its own.
func (b *Testbed) DB(need Need) *sql.DB {
	addr, name := b.Server(need).Addr, fmt.Sprintf("lab_%d", time.Now().UnixNano())
	_, err := b.OpenDB(addr, "").ExecContext(b.Ctx, "CREATE DATABASE "+name)
	b.Must("create a database", err)
	return b.OpenDB(addr, name+"?interpolateParams=true")
}

// OpenDB opens a new pool on a database of the server, or of the proxy, at host:port. name may have parameters of the
// driver.
func (b *Testbed) OpenDB(addr, name string) *sql.DB {
	return b.open("root@tcp(" + addr + ")/" + name)
}

// ServiceDB opens the database of the service, to read it and to lock rows in it.
func (b *Testbed) ServiceDB() *sql.DB { return b.open(b.Server(NeedMySQL).URL) }

func (b *Testbed) open(dsn string) *sql.DB {
	config, err := mysqlconn.Parse(dsn)
	b.Must("open mysql", err)
	config.Logger = &mysql.NopLogger{} // scenarios break connections on purpose
	connector, err := mysqlconn.NewConnector(config)
	b.Must("open mysql", err)
	db := sql.OpenDB(connector)
	b.Defer(func() { _ = db.Close() })
	return db
}

// Exec runs a statement of the lab's own code and records it in the timeline.
func (b *Testbed) Exec(lane string, on *sql.DB, query string, args ...any) {
	_, err := on.ExecContext(b.Ctx, query, args...)
	b.Must(query, err)
	b.Statement(lane, "mysql", query)
}

// Int runs a query for one number and records both in the timeline.
func (b *Testbed) Int(lane string, on *sql.DB, query string, args ...any) (n int64) {
	b.Must(query, on.QueryRowContext(b.Ctx, query, args...).Scan(&n))
	b.Statement(lane, "mysql", fmt.Sprintf("%s = %d", query, n))
	return n
}

// Defer calls f when the case has ended, however it ends. Functions are called in reverse order, as by defer.
func (b *Testbed) Defer(f func()) { b.closers = append(b.closers, f) }

// Go runs f in a goroutine. f must return when ctx ends, and must not call a method that can stop the scenario.
func (b *Testbed) Go(f func(ctx context.Context)) { b.owned.Go(func() { f(b.Ctx) }) }

// Eventually waits until so returns true, and stops the scenario after Patience. Use it for events that must happen,
// never for those that must not.
func (b *Testbed) Eventually(what string, so func() bool) {
	for began := time.Now(); !so(); {
		if time.Since(began) > Patience {
			b.Fatalf("not within %v: %s", Patience, what)
		}
		b.pause(what)
	}
}

// pause waits a moment before the next poll.
func (b *Testbed) pause(what string) {
	if err := loadtest.Sleep(b.Ctx, 5*time.Millisecond); err != nil {
		b.Fatalf("until %s: %w", what, err)
	}
}

// Evidence records a fact. value is its number or structure, or nil. key and pairs select a text of the scenario, as in
// Texts.Say.
func (b *Testbed) Evidence(kind Proof, value any, key string, pairs ...any) {
	if d, ok := value.(time.Duration); ok {
		value = ms(d)
	}
	b.prove(kind, value, b.say(key, pairs...))
}

// Note records an action or observation of this moment in a lane of the timeline.
func (b *Testbed) Note(lane, key string, pairs ...any) { b.note(lane, b.say(key, pairs...)) }

// Statement records a statement or a command that was just run, and the server to which the client in that lane sent
// it. It is not translated. A server sends its own to nobody.
func (b *Testbed) Statement(lane, to, text string) {
	if b.Stack().Server(lane) != nil {
		to = ""
	}
	b.EventSaying(CaseEvent{Lane: lane, Kind: Note, To: to}, text)
}

// Interval records an event that lasted from from until now.
func (b *Testbed) Interval(lane string, kind Kind, who string, from time.Time, key string, pairs ...any) {
	b.timeline.Record(CaseEvent{At: from, Until: time.Now(), Lane: lane, Kind: kind, Who: who}, b.say(key, pairs...))
}

// Event records e with its text.
func (b *Testbed) Event(e CaseEvent, key string, pairs ...any) {
	b.timeline.Record(e, b.say(key, pairs...))
}

// EventSaying records e with a statement as its text, which is not translated.
func (b *Testbed) EventSaying(e CaseEvent, statement string) {
	b.timeline.Record(e, Text{EN: statement})
}

// say returns a text of the scenario. A missing text fails the case only at its end, because say may be called from any
// goroutine.
func (b *Testbed) say(key string, pairs ...any) Text {
	text, err := b.says.Say(key, pairs...)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unsaid = append(b.unsaid, err)
	}
	return text
}

func (b *Testbed) prove(kind Proof, value any, said Text) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evidence = append(b.evidence, Evidence{Kind: kind, Text: said.EN, ZH: said.ZH, Value: value})
}

func (b *Testbed) note(lane string, said Text) {
	b.timeline.Record(CaseEvent{Lane: lane, Kind: Note}, said)
}

// cleanup ends the case's calls, undoes its faults, and returns what went wrong.
func (b *Testbed) cleanup() (failed string) {
	var wrong []string
	for _, app := range b.apps {
		if app.frozen && app.Pid() != 0 {
			app.frozen = false
			if err := app.Resume(); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Ctx), 10*time.Second)
	defer cancel()
	for _, call := range b.calls {
		call.abandon(ctx)
	}
	for _, f := range slices.Backward(b.closers) {
		f()
	}
	b.awaitSteps()
	b.end(errors.New("the case has ended"))
	b.owned.Wait()
	b.drawSales()
	if b.own != nil {
		if err := b.own.close(); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	for _, err := range b.unsaid {
		wrong = append(wrong, err.Error())
	}
	return strings.Join(wrong, "; ")
}

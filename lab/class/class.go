package class

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// Options configure a class.
type Options struct {
	Want     []server.Kind // backends; the first Redis, ZooKeeper and MySQL can be killed from the wall
	Binary   string        // the stock program; default: os.Executable()
	Parent   string        // where the stack's temporary folder is made; default: os.TempDir()
	AnyPort  bool          // do not use the usual ports
	Progress func(server.Event)
	Dir      string // folder for a file of each run; empty: none
	Addr     string // of the wall, on a loopback address; default: 127.0.0.1:0
	Bind     string // of the students' page; empty: no such page
	Lang     string // initial language of the wall: en or zh

	pace float64 // scales the times of scenes and leases, for tests; 0: 1
}

// scaled returns a time at the pace of the class.
func (o *Options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * cmp.Or(o.pace, 1))
}

// skuOf returns the SKU of a run. Each run has its own, so that a request of an earlier run, such as a frozen holder,
// neither deducts from this run's stock nor holds its lock.
func skuOf(run int) string { return "run-" + strconv.Itoa(run) }

// skuAt returns a SKU of a run that has several. The first is 0, and that of a run with one.
func skuAt(run, good int) string {
	if good == 0 {
		return skuOf(run)
	}
	return skuOf(run) + ":" + strconv.Itoa(good)
}

// skusOf returns the SKUs of a run, of which most have one.
func skusOf(run int, p *RunPlan) (skus []string) {
	for good := range max(1, p.Goods) {
		skus = append(skus, skuAt(run, good))
	}
	return skus
}

// goodOf is the reverse of skuAt.
func goodOf(sku string) int {
	_, tail, _ := strings.Cut(sku, ":")
	n, _ := strconv.Atoi(tail) // empty for the first
	return n
}

// A Class is a wall and the servers behind it.
type Class struct {
	*board
	o       Options
	stack   *stack.Stack
	apps    []*server.Server
	link    stack.Link // from the instances to the backends
	admin   string     // the admin token of the instances
	clients map[string]*loadtest.Client
	admins  map[string]*loadtest.Client // the listeners for operators
	front   *loadtest.Client
	catalog []loadtest.Strategy

	ctx    context.Context // of all work of the class
	end    context.CancelFunc
	owned  sync.WaitGroup
	wall   *site
	school *school // nil: no students

	playing sync.Mutex // held while a run begins
	mu      sync.Mutex // guards the fields below
	scene   course
	plan    RunPlan
	run     int
	asking  course      // the requests of this run
	sent    int         // requests of this run
	left    int         // requests without a reply
	votes   map[int]int // choice, by student

	onward chan struct{} // the teacher goes on at a stop
	auto   atomic.Bool   // scenes do not wait for the teacher
}

// The times after which a server frees the lock of an instance that is dead or frozen.
const (
	lease   = 3 * time.Second // in Redis
	session = 4 * time.Second // in ZooKeeper
)

// A course is background work that can be stopped. The zero value is stopped.
type course struct {
	ctx context.Context
	end context.CancelFunc
	on  *sync.WaitGroup
}

func begun(ctx context.Context) course {
	c := course{on: new(sync.WaitGroup)}
	c.ctx, c.end = context.WithCancel(ctx)
	return c
}

// stop cancels the work and waits for its end.
func (c course) stop() {
	if c.end != nil {
		c.end()
		c.on.Wait()
	}
}

// env returns the environment of all instances. Leases are short, so that a class can wait for their end. The limit on
// the critical section is long, so that the teacher can hold a request while the class talks. Requests of one instance
// do not hand the lock over to each other, so that each is seen to wait.
func env(token string, o *Options) []string {
	millis := func(d time.Duration) string { return strconv.FormatInt(o.scaled(d).Milliseconds(), 10) + "ms" }
	return []string{
		"STOCK_LAB=true", "STOCK_ADMIN_TOKEN=" + token, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s", "STOCK_STOP=1s",
		"STOCK_WAIT=60s", "STOCK_WORK=60s", "STOCK_REDLOCK_QUARANTINE=-1s", "STOCK_REDLOCK_NODE_TIMEOUT=500ms",
		"STOCK_LOCK_SETNX_LEASE=" + millis(lease), "STOCK_LOCK_WATCHDOG_LEASE=" + millis(lease),
		"STOCK_REDLOCK_LEASE=" + max(o.scaled(lease), time.Second).String(), // the shortest that it takes
		"STOCK_ZOOKEEPER_SESSION_TIMEOUT=" + millis(session),
		"STOCK_LOCK_HANDOVER=false",
	}
}

// Start starts the servers, three instances, nginx and the wall. Close stops them. After an error nothing is left
// running.
func Start(ctx context.Context, o Options) (*Class, error) {
	c := &Class{
		o: o, clients: make(map[string]*loadtest.Client), admins: make(map[string]*loadtest.Client),
		admin: rand.Text(), board: newBoard(newRecorder(o.Dir)), onward: make(chan struct{}, 1),
	}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Class) open(ctx context.Context) (err error) {
	c.stack, err = stack.Start(ctx, stack.Options{
		Options: server.Options{Want: c.o.Want, AOF: true, Parent: c.o.Parent, Progress: c.o.Progress},
		Env:     env(c.admin, &c.o), Binary: c.o.Binary, AnyPort: c.o.AnyPort,
	})
	if err != nil {
		return err
	}
	if c.link, err = stack.OpenLink(c.stack.Stack); err != nil {
		return err
	}
	for kind := range c.link {
		c.stand(string(kind), "up")
	}
	for _, name := range c.masters() {
		c.stand(name, "up")
	}
	if c.apps, err = c.stack.Serve(ctx, 3, c.stack.EnvVia(c.link)...); err != nil {
		return err
	}
	if err := c.meet(ctx); err != nil {
		return err
	}
	c.owned.Go(c.watchStock)
	c.owned.Go(c.watchLease)
	return c.listen()
}

// meet makes clients for the instances and nginx, and begins to read the instances' steps.
func (c *Class) meet(ctx context.Context) (err error) {
	front, err := c.stack.Front(ctx, c.apps...)
	if err != nil {
		return err
	}
	if c.front, err = loadtest.NewClient(front.URL, c.admin, 0); err != nil {
		return err
	}
	for _, app := range c.apps {
		if c.clients[app.Name], err = loadtest.NewClient(app.URL, c.admin, 0); err != nil {
			return err
		}
		if c.admins[app.Name], err = loadtest.NewClient(app.Admin, c.admin, 0); err != nil {
			return err
		}
		c.stand(app.Name, "up")
		steps := stepsOfApp(app.Name, app.Admin, c.admin, c.told)
		c.owned.Go(func() { steps.Follow(c.ctx) })
	}
	c.catalog, err = c.clients[c.apps[0].Name].Strategies(ctx)
	return err
}

// told adds a step of an instance if it belongs to a request of this class.
func (c *Class) told(e RunEvent) {
	if e.Kind == gap || runOf(e.Req) > 0 {
		c.tell(e)
	}
}

// Close stops everything that Start and the wall have started. It takes some seconds.
func (c *Class) Close() error {
	c.end()
	var failed []error
	if c.wall != nil {
		failed = append(failed, c.wall.close())
	}
	if c.school != nil {
		failed = append(failed, c.school.close())
	}
	failed = append(failed, c.link.Close())
	for _, app := range c.apps {
		failed = append(failed, app.Kill()) // a slow shutdown would save nothing
	}
	if c.stack != nil {
		failed = append(failed, c.stack.Stop())
	}
	c.owned.Wait()
	for _, clients := range []map[string]*loadtest.Client{c.clients, c.admins} {
		for _, client := range clients {
			client.Close()
		}
	}
	return errors.Join(append(failed, c.recorder.close())...)
}

// URL is the address of the wall, with the token that opens it.
func (c *Class) URL() string { return "http://" + c.wall.addr() + "/#" + c.wall.token }

// JoinURL is the address for students, or empty.
func (c *Class) JoinURL() string {
	if c.school == nil {
		return ""
	}
	return c.school.url()
}

// stand stores the state of a server.
func (c *Class) stand(server, state string) {
	c.note(RunEvent{Kind: standing, Server: server, State: state})
}

// stockEvery is the interval for reading an unchanged stock, and stockSoon the delay after a change.
const (
	stockEvery = time.Second
	stockSoon  = 60 * time.Millisecond
)

// watchStock reads the stock in the store, soon after every change and otherwise at intervals.
func (c *Class) watchStock() {
	for c.ctx.Err() == nil {
		changed := c.next()
		c.readStock(c.ctx)
		if loadtest.Sleep(c.ctx, stockSoon) != nil {
			return
		}
		select {
		case <-changed:
		case <-time.After(stockEvery):
		case <-c.ctx.Done():
		}
	}
}

// readStock reads the stock through the first instance that answers, and records it if it has changed.
func (c *Class) readStock(ctx context.Context) {
	run, plan := c.current()
	if run == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	seen := StockSeen{}
	for _, app := range c.up() {
		var err error
		if seen, err = c.stockAt(ctx, app.Name, run, &plan); err == nil {
			break
		}
	}
	if ctx.Err() != nil && c.ctx.Err() != nil {
		return
	}
	c.seenStock(run, seen)
}

// stockAt reads the stock of all SKUs of a run through an instance. After an error it is not known.
func (c *Class) stockAt(ctx context.Context, app string, run int, p *RunPlan) (StockSeen, error) {
	seen := StockSeen{Known: true}
	for _, sku := range skusOf(run, p) {
		stock, err := c.clients[app].Stock(ctx, p.Store, sku)
		if err != nil {
			return StockSeen{}, err
		}
		seen.Initial += stock.Initial
		seen.Written += stock.Quantity
		seen.Sold += stock.Sold
	}
	return seen, nil
}

// seenStock records the stock if it has changed, or if it is the first reading after all requests have ended, which
// settles the verdict.
func (c *Class) seenStock(run int, seen StockSeen) {
	news := true
	c.look(func(s *State) {
		if last, ok := s.ofRun[stockSeen]; ok && s.run == run {
			news = *last.Stock != seen || s.ofRun[allFired].Seq > last.Seq
		}
	})
	if news {
		c.note(RunEvent{Kind: stockSeen, Run: run, Stock: &seen})
	}
}

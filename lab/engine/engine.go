// Package engine tests the service on servers that somebody has: a MySQL of any make, a managed Redis, a ZooKeeper. It
// starts instances of the service on this computer, which sell through these servers with every strategy, and judges
// each race and a checkout. It works in a schema, keys and nodes of its own, and removes them.
package engine

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// failure returns a text of this package as an error.
func failure(key string, pairs ...any) error { return phrases.Error(key, pairs...) }

// The stores of the service.
const (
	onRedis = string(server.Redis)
	onMySQL = string(server.MySQL)
)

// Options say what is tested, and how.
type Options struct {
	MySQL      []string // DSNs of one schema: an instance for each
	Redis      string   // URL; empty: none
	ZooKeeper  []string // host:port
	Strategies []string
	Env        []string // more settings of the instances, KEY=value
	Plan       loadtest.Plan
	Visits     int // of the customers of the checkout, unless there are commands

	// Commands to run during the checkout. It lasts until afterCommands later than the last.
	At  []loadtest.Command
	Log io.Writer // of the commands and their output; may be nil

	Lang   string // of the reasons in the report
	Binary string // the stock program; default: os.Executable()

	Say    func(words.Text)                                     // each step; may be nil
	Server func(server.Event)                                   // each start of an instance; may be nil
	Run    func(strategy, store string) func(loadtest.Progress) // returns the progress function of a run; may be nil
	Visit  func() func(checkout.Progress)                       // the same for the checkout; may be nil
}

// Format and Version are the format and the version of the JSON of a Report.
const (
	Format  = "stock-engine-report"
	Version = 1
)

// A Report says what was tested, and how it ended.
type Report struct {
	Format    string            `json:"format"`
	Version   int               `json:"version"`
	Name      string            `json:"name"`    // of the test: the schema, and a part of every name
	Servers   map[string]string `json:"servers"` // what each server reports about itself
	StartedAt time.Time         `json:"started_at"`
	TookMS    float64           `json:"took_ms"`
	Parts     []Part            `json:"parts"`
	Checkout  *checkout.Result  `json:"checkout,omitempty"` // of the order service; nil: there was none
}

// A Part has the runs of one set of instances.
type Part struct {
	// SeveralWriters reports that MySQL is a cluster with several writers, and that the test set mysql.single_writer,
	// which may be false. Otherwise the part is what the service does with its settings, and nothing may be broken.
	SeveralWriters bool               `json:"several_writers"`
	Instances      []Instance         `json:"instances"`
	Runs           []*loadtest.Result `json:"runs"`
	Refused        []Refused          `json:"refused"`
}

// An Instance is an instance of the service.
type Instance struct {
	Name    string            `json:"name"`
	MySQL   int               `json:"mysql,omitempty"`   // number of its DSN, from 1
	Refuses map[string]string `json:"refuses,omitempty"` // stores that it does not sell from, with the reason
}

// Refused is what the service refuses to do on these servers.
type Refused struct {
	What  string `json:"what"` // a strategy, or "checkout"
	Store string `json:"store"`
	Why   string `json:"why"`
}

// Failed returns the runs that are broken though the service accepts them: those of the parts without SeveralWriters.
func (r *Report) Failed() (runs []*loadtest.Result) {
	for _, p := range r.Parts {
		if !p.SeveralWriters {
			runs = append(runs, p.Broken()...)
		}
	}
	return runs
}

// CheckoutFailed reports whether the books of the order service are wrong.
func (r *Report) CheckoutFailed() bool {
	return r.Checkout != nil && r.Checkout.Verdict.Finding == loadtest.Broken
}

// Broken returns the runs that broke a promise.
func (p *Part) Broken() (list []*loadtest.Result) {
	for _, r := range p.Runs {
		if r.Verdict.Finding == loadtest.Broken && !r.Verdict.Kept {
			list = append(list, r)
		}
	}
	return list
}

// Undecided returns how many runs of the parts without SeveralWriters could not be decided, the checkout included.
func (r *Report) Undecided() (n int) {
	for _, p := range r.Parts {
		if p.SeveralWriters {
			continue
		}
		for _, run := range p.Runs {
			if !run.Verdict.Kept && run.Verdict.Finding == loadtest.Undecided {
				n++
			}
		}
	}
	if r.Checkout != nil && r.Checkout.Verdict.Finding == loadtest.Undecided {
		n++
	}
	return n
}

// A test is a test that is running.
type test struct {
	Options
	name   string
	report *Report
	schema *schema // nil: there is no MySQL
	keys   *keys   // nil: there is no Redis
	stack  *stack.Stack
}

// removeBound bounds the removal of everything.
const removeBound = 2 * time.Minute

// Run tests. When it returns, the instances are stopped and everything on the servers is removed; the error says what
// is not. It returns a report with the parts that were tested, also with an error.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	began := time.Now()
	t := &test{Options: o, name: "stock_engine_" + strings.ToLower(rand.Text()[:10])}
	t.report = &Report{
		Format: Format, Version: Version, Name: t.name, Servers: make(map[string]string), StartedAt: began.UTC(),
	}
	var remove []func(context.Context) error
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeBound)
		defer cancel()
		for _, do := range slices.Backward(remove) {
			err = errors.Join(err, do(ctx))
		}
		t.report.TookMS = float64(time.Since(began)) / float64(time.Millisecond)
	}()
	if len(o.MySQL) > 0 {
		if t.schema, err = openSchema(ctx, o.MySQL, t.name); err != nil {
			return t.report, err
		}
		remove = append(remove, t.schema.remove)
		t.say("in-schema", "name", t.schema.configs[0].DBName)
	}
	if o.Redis != "" {
		if t.keys, err = openKeys(ctx, o.Redis, t.name); err != nil {
			return t.report, err
		}
		remove = append(remove, t.keys.remove)
		if t.report.Servers[onRedis], err = t.keys.describe(ctx); err != nil {
			return t.report, err
		}
		t.say("in-keys", "name", t.name)
	}
	if len(o.ZooKeeper) > 0 {
		nodes, err := openRoot(ctx, o.ZooKeeper, t.name)
		if err != nil {
			return t.report, err
		}
		remove = append(remove, nodes.remove)
		t.report.Servers[string(server.ZooKeeper)] = strings.Join(o.ZooKeeper, ",")
	}
	t.stack, err = stack.Start(ctx, stack.Options{
		Options: server.Options{Progress: t.Server}, AnyPort: true, Binary: o.Binary, Env: t.env(),
	})
	if err != nil {
		return t.report, err
	}
	remove = append(remove, func(context.Context) error { return t.stack.Stop() })
	if err := t.parts(ctx); err != nil {
		return t.report, err
	}
	return t.report, t.checkout(ctx)
}

func (t *test) say(key string, pairs ...any) {
	if t.Say != nil {
		t.Say(phrases.Say(key, pairs...))
	}
}

// token lets the test set stock on the instances, which listen on this computer only.
const token = "engine"

// env returns the settings of all instances. Limits are long, so that a slow connection is not mistaken for a fault.
func (t *test) env() []string {
	return append(slices.Clone(t.Env),
		"STOCK_ADMIN_TOKEN="+token, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s", "STOCK_STOP=3s", "STOCK_WAIT=30s",
		"STOCK_WORK=20s", "STOCK_SEED_SKU="+t.name+"-seed", "STOCK_STORE="+t.stores()[0],
		"STOCK_REDIS_URL="+t.Redis, "STOCK_REDLOCK_URLS=",
		"STOCK_ZOOKEEPER_HOSTS="+strings.Join(t.ZooKeeper, ","), "STOCK_ZOOKEEPER_ROOT=/"+t.name, "STOCK_MYSQL_DSN=",
	)
}

// stores returns the stores whose servers were given.
func (t *test) stores() (list []string) {
	if t.schema != nil {
		list = append(list, onMySQL)
	}
	if t.keys != nil {
		list = append(list, onRedis)
	}
	return list
}

// parts runs the part with the settings as they are, and if the instances refuse to sell on a cluster with several
// writers, one with mysql.single_writer.
func (t *test) parts(ctx context.Context) error {
	refused, err := t.part(ctx, false, t.stores())
	if err == nil && ctx.Err() == nil && refused {
		_, err = t.part(ctx, true, []string{onMySQL})
	}
	return errors.Join(err, ctx.Err())
}

// part runs everything with one set of instances. It reports whether they refused to sell from MySQL.
func (t *test) part(ctx context.Context, severalWriters bool, stores []string) (refused bool, err error) {
	t.report.Parts = append(t.report.Parts, Part{
		SeveralWriters: severalWriters, Runs: []*loadtest.Result{}, Refused: []Refused{},
	})
	p := &t.report.Parts[len(t.report.Parts)-1]
	var env []string
	if severalWriters {
		env = []string{"STOCK_MYSQL_SINGLE_WRITER=true"}
	}
	f, err := t.open(ctx, stores, env...)
	if err != nil {
		return false, err
	}
	p.Instances = f.instances()
	if t.schema != nil {
		t.report.Servers[onMySQL] = f.mysql
	}
	for _, store := range stores {
		if err := t.races(ctx, f, p, store); err != nil {
			return false, errors.Join(err, f.close())
		}
	}
	if err := f.close(); err != nil {
		return false, err
	}
	return slices.Contains(stores, onMySQL) && f.refusal(onMySQL) != "", nil
}

// races makes the run of every strategy on one store.
func (t *test) races(ctx context.Context, f *fleet, p *Part, store string) error {
	catalogue, err := f.Strategies(ctx)
	if err != nil {
		return err
	}
	for _, s := range catalogue {
		why, down := s.DownStores[store]
		switch {
		case !slices.Contains(t.Strategies, s.Name), !slices.Contains(s.Stores, store):
			continue
		case !s.Available:
			why, down = s.Reason, true
		}
		if down {
			p.Refused = append(p.Refused, Refused{s.Name, store, why})
			continue
		}
		plan := t.Plan
		plan.Strategy, plan.Store, plan.SKU = s.Name, store, t.name+"-"+s.Name
		var progress func(loadtest.Progress)
		if t.Run != nil {
			progress = t.Run(s.Name, store)
		}
		result, err := loadtest.Run(ctx, f, plan, progress)
		if result != nil {
			p.Runs = append(p.Runs, result)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// afterCommands is how long customers come after the last command.
const afterCommands = 10 * time.Second

// checkout runs customers on two instances of the order service. Both write to the node of the first DSN.
func (t *test) checkout(ctx context.Context) (err error) {
	if t.schema == nil {
		return nil
	}
	if err := t.schema.empty(ctx); err != nil {
		return err
	}
	servers, err := t.stack.Orders(ctx, 2, "ORDERS_MYSQL_DSN="+t.schema.dsns[0])
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		// An instance that does not start says why in the last line of its log.
		why := strings.TrimSpace(err.Error())
		p := &t.report.Parts[0]
		p.Refused = append(p.Refused, Refused{"checkout", onMySQL, why[strings.LastIndexByte(why, '\n')+1:]})
		return nil
	}
	var clients []*loadtest.Client
	defer func() {
		for _, c := range clients {
			c.Close()
		}
		for _, s := range servers {
			err = errors.Join(err, s.Stop())
		}
	}()
	for _, s := range servers {
		c, err := checkout.NewClient(s.URL, stack.OrdersSecret, t.Plan.Concurrency)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	var progress func(checkout.Progress)
	if t.Visit != nil {
		progress = t.Visit()
	}
	plan := checkout.Plan{
		SKU: t.name + "-cart", Concurrency: t.Plan.Concurrency, Visits: t.Visits, Seed: t.Plan.Seed,
		Patience: 8 * time.Second, // without commands nothing is away for long
	}
	if len(t.At) > 0 {
		plan.Visits, plan.At, plan.Log, plan.Patience = 0, t.At, t.Log, 0
		for i := range t.At {
			plan.Duration = max(plan.Duration, t.At[i].After()+afterCommands)
		}
		plan.Stock = 5000 // a sold-out shop would show nothing
	}
	t.report.Checkout, err = checkout.Run(ctx, clients, plan, nil, progress)
	return errors.Join(err, ctx.Err())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/tools/bench/rig"
)

// Constants are what was measured: what the model is made of, and what it is held against.
type constants struct {
	Computer string    `json:"computer"`
	CPUs     int       `json:"cpus"`
	Versions []string  `json:"versions"`
	Version  string    `json:"version"`
	Began    time.Time `json:"began"`
	Stores   []*store  `json:"stores"`
	Memory   []weight  `json:"memory"`
}

// A store is one of MySQL and Redis.
type store struct {
	Name  string  `json:"name"`
	Costs costs   `json:"costs"`
	Steps []step  `json:"steps"` // of one caller, without HTTP
	Runs  []point `json:"runs"`  // over HTTP
}

// A step is Batch of N orders, by one caller, again and again. Times are in µs for each step.
type step struct {
	N      int                `json:"n"`
	Wall   float64            `json:"wall"`
	Caller float64            `json:"caller"` // CPU
	Store  float64            `json:"store"`  // CPU
	Counts map[string]float64 `json:"counts"` // what the store counted, for each step
}

// A point is a run over HTTP with all on one computer: so many instances, and connections in all.
type point struct {
	Instances   int                `json:"instances"`
	Connections int                `json:"connections"`
	Rate        float64            `json:"rate"`   // sold/s, median of the rounds
	Batch       float64            `json:"batch"`  // sales in each step
	CPU         map[string]float64 `json:"cpu_us"` // of each part, for each sale
	Bytes       float64            `json:"bytes"`  // that the client received, for each sale
	Others      float64            `json:"others"` // CPUs that other programs took
}

// most is the largest number of instances that is measured.
const most = 5

var errNoTime = errors.New("the CPU times of processes cannot be read here: -measure needs Linux")

// measure takes the constants from a run of its own.
func measure(ctx context.Context, seconds, rounds int) (*constants, error) {
	root, err := rig.Root(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "bench-scale-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "stock")
	rig.Progress("building the stock program")
	if err := rig.Build(ctx, root, program); err != nil {
		return nil, err
	}
	c := &constants{
		Computer: rig.Computer(), CPUs: rig.CPUs(), Version: rig.Version(ctx, root),
		Began:  time.Now().UTC().Truncate(time.Second),
		Stores: []*store{{Name: "mysql"}, {Name: "redis"}},
	}
	for n := 1; n <= most; n++ {
		if err := c.withInstances(ctx, folder, program, n, seconds, rounds); err != nil {
			return nil, err
		}
	}
	for _, s := range c.Stores {
		if err := s.request(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return c, c.weigh(ctx)
}

// withInstances does what is measured with n instances. With one, the store is measured alone as well.
func (c *constants) withInstances(
	ctx context.Context, folder, program string, n, seconds, rounds int,
) (err error) {
	rig.Progress("%d instances", n)
	side, err := rig.Open(ctx, rig.Options{
		Name: "scale", Binary: program, Instances: n, Want: []stack.Kind{stack.Redis, stack.MySQL}, Tell: rig.Progress,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, side.Close()) }()
	if n == 1 {
		c.Versions = side.Versions(ctx)
		for _, s := range c.Stores {
			if err := s.alone(ctx, side); err != nil {
				return fmt.Errorf("steps of %s: %w", s.Name, err)
			}
		}
	}
	for _, s := range c.Stores {
		for _, connections := range []int{30, 128} {
			p, err := s.overHTTP(ctx, side, folder, n, connections, seconds, rounds)
			if err != nil {
				return errors.Join(fmt.Errorf("%d instances on %s: %w", n, s.Name, err), side.Alive())
			}
			s.Runs = append(s.Runs, p)
			rig.Progress("  %s, %d connections: %.0f/s in batches of %.1f", s.Name, connections, p.Rate, p.Batch)
		}
	}
	return nil
}

const plenty = 1_000_000_000

// overHTTP returns the round with the median rate, after one that is not counted.
func (s *store) overHTTP(
	ctx context.Context, side *rig.Side, folder string, n, connections, seconds, rounds int,
) (point, error) {
	endpoint, err := side.Endpoint("merged")
	if err != nil {
		return point{}, err
	}
	var points []point
	for round := range rounds + 1 {
		sku := fmt.Sprintf("scale-%d-%d-%d", n, connections, round)
		if _, err := side.SetStock(ctx, s.Name, sku, plenty); err != nil {
			return point{}, err
		}
		before := side.Read(ctx)
		began := time.Now()
		long := seconds
		if round == 0 {
			long = 1
		}
		l, err := rig.Wrk(ctx, folder, fmt.Sprintf("%s%s?sku=%s&store=%s", side.URL, endpoint, sku, s.Name),
			rig.Posts, connections, long)
		if err != nil {
			return point{}, err
		}
		took := float64(time.Since(began).Microseconds())
		spent := side.Read(ctx).Since(before)
		if _, err := side.Balance(ctx, s.Name, sku, l.OK(), int64(connections)); err != nil {
			return point{}, err
		}
		if err := side.Forget(ctx, s.Name, sku); err != nil {
			return point{}, err
		}
		if l.OK() == 0 || spent.CPU[rig.PartService] == 0 {
			return point{}, errNoTime
		}
		if round == 0 {
			continue
		}
		p := point{
			Instances: n, Connections: connections, Rate: float64(l.OK()) / l.Seconds,
			Bytes: l.Bytes / float64(l.Requests),
			CPU:   map[string]float64{"client": l.CPU / float64(l.OK())},
		}
		rest := spent.Busy - l.CPU
		for part, us := range spent.CPU {
			rest -= us
			p.CPU[part] = us / float64(l.OK())
		}
		p.Others = max(0, rest/took)
		if steps := spent.Counts[stepsOf[s.Name]]; steps > 0 {
			p.Batch = float64(l.OK()) / steps
		}
		points = append(points, p)
	}
	return middle(points), nil
}

// stepsOf names the counter that grows by one with each step.
var stepsOf = map[string]string{"mysql": "mysql commits", "redis": "redis scripts"}

// middle returns the point with the median rate.
func middle(points []point) point {
	for _, p := range points {
		less := 0
		for _, other := range points {
			if other.Rate < p.Rate {
				less++
			}
		}
		if less == len(points)/2 {
			return p
		}
	}
	return points[0]
}

// A batcher is a store that a step can be asked of, here and through a slow link.
type batcher interface {
	service.Batcher
	service.Inventory
}

// connect opens the store at address. One connection for each caller is enough.
func (s *store) connect(address string) (batcher, func(), error) {
	if s.Name == "redis" {
		client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
		return stock.NewRedis(repo.NewRedis(client)), func() { _ = client.Close() }, nil
	}
	db, err := repo.OpenMySQL("root@tcp("+address+")/stock", repo.Pool{})
	if err != nil {
		return nil, nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	return stock.NewMySQL(repo.NewMySQL(db)), func() { _ = pool.Close() }, nil
}

// alone measures steps of one caller, of several sizes, and how often a step waits for the network.
func (s *store) alone(ctx context.Context, side *rig.Side) error {
	addr := side.Stack.Server(s.Name).Addr
	b, closeAll, err := s.connect(addr)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, n := range []int{1, 8, 32, 64, 128} {
		one, err := s.oneSize(ctx, side, b, n)
		if err != nil {
			return err
		}
		s.Steps = append(s.Steps, one)
		rig.Progress("  %s, steps of %d: %.0f µs, of them CPU of the store %.0f and of the caller %.0f", s.Name, n,
			one.Wall, one.Store, one.Caller)
	}
	s.Costs.StepStore = fit(s.Steps, func(p step) float64 { return p.Store })
	s.Costs.StepCaller = fit(s.Steps, func(p step) float64 { return p.Caller })
	wall := fit(s.Steps, func(p step) float64 { return p.Wall })
	s.Costs.StepWait = max(0, wall.A-s.Costs.StepStore.A-s.Costs.StepCaller.A)
	if s.Name == "redis" {
		s.Costs.StoreCores = 1 // one thread runs the scripts
	}
	return s.trips(ctx, addr)
}

// stepTime is how long steps of one size are measured.
const stepTime = time.Second

func (s *store) oneSize(ctx context.Context, side *rig.Side, b batcher, n int) (step, error) {
	sku := service.SKU(fmt.Sprintf("steps-%d", n))
	if _, err := b.Set(ctx, sku, plenty); err != nil {
		return step{}, err
	}
	if err := sell(ctx, b, sku, n); err != nil { // the script is loaded, the connection is open
		return step{}, err
	}
	before, self, began := side.Read(ctx), rig.SelfTime(), time.Now()
	steps := 0.0
	for time.Since(began) < stepTime {
		if err := sell(ctx, b, sku, n); err != nil {
			return step{}, err
		}
		steps++
	}
	wall, used := float64(time.Since(began).Microseconds()), rig.SelfTime()-self
	spent := side.Read(ctx).Since(before)
	if spent.CPU[s.Name] == 0 {
		return step{}, errNoTime
	}
	p := step{
		N: n, Wall: wall / steps, Caller: used / steps, Store: spent.CPU[s.Name] / steps, Counts: map[string]float64{},
	}
	for name, count := range spent.Counts {
		if strings.HasPrefix(name, s.Name) {
			p.Counts[name] = math.Round(count/steps*10) / 10
		}
	}
	return p, side.Forget(ctx, s.Name, string(sku))
}

// sell makes a step of n sales.
func sell(ctx context.Context, b batcher, sku service.SKU, n int) error {
	orders := make([]service.Order, n)
	for i := range orders {
		orders[i] = service.Order{
			ID: uuid.NewString(), SKU: sku, Quantity: 1, Strategy: "merged", Instance: "app-1",
			RequestID: uuid.NewString(), CreatedAt: time.Now(),
		}
	}
	results, err := b.Batch(ctx, 0, orders)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// fit returns the line of least squares through the steps, each weighed by the inverse of its size: otherwise the
// largest alone would decide, and what a single sale costs would be lost.
func fit(steps []step, of func(step) float64) line {
	var w, x, y, xx, xy float64
	for _, p := range steps {
		n, weight := float64(p.N), 1/float64(p.N)
		w += weight
		x += weight * n
		y += weight * of(p)
		xx += weight * n * n
		xy += weight * n * of(p)
	}
	b := (w*xy - x*y) / (w*xx - x*x)
	return line{(y - b*x) / w, b}
}

// slowTrip is what the link of trips adds to every round trip.
const slowTrip = 10 * time.Millisecond

// trips counts how often a step waits for the network: how much longer it takes over a slow link, and how seldom steps
// follow each other at the same row when several callers want it.
func (s *store) trips(ctx context.Context, addr string) error {
	link, err := wire.Listen(addr, wire.Protocol{})
	if err != nil {
		return err
	}
	defer link.Close()
	const callers, steps = 6, 8
	b, closeAll, err := s.connect(link.Addr())
	if err != nil {
		return err
	}
	defer closeAll()
	const sku = "trips"
	if _, err := b.Set(ctx, sku, plenty); err != nil {
		return err
	}
	several := func() error { return together(ctx, callers, callers, func() error { return sell(ctx, b, sku, 1) }) }
	if err := several(); err != nil { // all connections are open
		return err
	}
	timed := func(do func() error) (time.Duration, error) {
		began := time.Now()
		err := do()
		return time.Since(began), err
	}
	// The quickest says the most: what else delays a step is no round trip.
	quickest := func() (least time.Duration, err error) {
		least = math.MaxInt64
		for range steps {
			took, err := timed(func() error { return sell(ctx, b, sku, 1) })
			if err != nil {
				return 0, err
			}
			least = min(least, took)
		}
		return least, nil
	}
	quick, err := quickest()
	if err != nil {
		return err
	}
	link.Delay(wire.ToServer, slowTrip/2)
	link.Delay(wire.ToClient, slowTrip/2)
	slow, err := quickest()
	if err != nil {
		return err
	}
	row, err := timed(func() error {
		return together(ctx, callers, callers*steps, func() error { return sell(ctx, b, sku, 1) })
	})
	s.Costs.Trips = max(1, math.Round(float64(slow-quick)/float64(slowTrip)))
	s.Costs.TripsLocked = math.Floor(float64(row)/float64(slowTrip*callers*steps) + 0.25)
	rig.Progress("  %s: a step waits for %g round trips, and has the row for %g of them", s.Name, s.Costs.Trips,
		s.Costs.TripsLocked)
	return err
}

// together does something so many times in all, by several callers.
func together(ctx context.Context, callers, times int, do func() error) error {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(times))
	failed := make([]error, callers)
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil && left.Add(-1) >= 0 && failed[i] == nil {
				failed[i] = do()
			}
		})
	}
	all.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}

// request takes the prices of a request from the runs over HTTP: what is left when the steps are taken away, by how
// many were sold together. How much was sold is not taken from there.
func (s *store) request() error {
	k := &s.Costs
	var runs []point
	for _, p := range s.Runs {
		if p.Batch > 0 {
			runs = append(runs, p)
		}
	}
	if len(runs) == 0 {
		return errors.New("no run has sold in batches")
	}
	k.Client = priceOf(runs, func(p point) float64 { return p.CPU["client"] })
	k.Nginx = priceOf(runs, func(p point) float64 { return p.CPU[rig.PartNginx] })
	k.Service = priceOf(runs, func(p point) float64 {
		return max(0, p.CPU[rig.PartService]-k.StepCaller.A/p.Batch-k.StepCaller.B)
	})
	return nil
}

// priceOf fits a price to the runs by least squares. Neither part can be less than nothing: then it is left out, and
// the other is the mean.
func priceOf(runs []point, of func(point) float64) price {
	var n, x, y, xx, xy float64
	for _, p := range runs {
		share := 1 / p.Batch
		n++
		x += share
		y += of(p)
		xx += share * share
		xy += share * of(p)
	}
	spread := n*xx - x*x
	if spread <= 0 {
		return price{Each: y / n}
	}
	wake := (n*xy - x*y) / spread
	each := (y - wake*x) / n
	switch {
	case wake < 0:
		return price{Each: y / n}
	case each < 0:
		return price{Wake: xy / xx}
	}
	return price{each, wake}
}

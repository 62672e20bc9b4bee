package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/tools/bench/rig"
)

// results are everything that was measured.
type results struct {
	Computer  string    `json:"computer"`
	Versions  []string  `json:"versions"`
	Version   string    `json:"version"`          // of the service
	Beside    string    `json:"beside,omitempty"` // and of the one beside it
	Began     time.Time `json:"began"`
	Minutes   float64   `json:"minutes"` // for all of it
	Rounds    int       `json:"rounds"`
	Seconds   int       `json:"seconds"` // of each measurement
	Instances int       `json:"instances"`
	CPUs      int       `json:"cpus"`
	Rows      []*series `json:"rows"`
	Shares    []share   `json:"shares,omitempty"` // with --profile
}

// A series is one job over all rounds.
type series struct {
	job
	Rounds []outcome `json:"rounds"`
}

// An outcome is one measurement.
type outcome struct {
	Done    int64              `json:"done"` // sales, refusals, or replies of ping
	Rate    float64            `json:"rate"` // of these, a second
	P50     float64            `json:"p50_ms,omitempty"`
	P99     float64            `json:"p99_ms,omitempty"`
	CPU     map[string]float64 `json:"cpu_us"`           // of each part, for each done
	Counts  map[string]float64 `json:"counts,omitempty"` // what the stores counted, for each done
	Bytes   float64            `json:"bytes,omitempty"`  // that the client received, for each done
	Other   map[string]int64   `json:"other,omitempty"`  // replies of other outcomes
	Offered float64            `json:"offered,omitempty"`
	Load    float64            `json:"load"`   // load average of the computer
	Others  float64            `json:"others"` // CPUs that programs took which are no part of this
	Paired  *paired            `json:"paired,omitempty"`
}

// measure runs all jobs in every round. Each round begins with another, so that whatever else the computer does meets
// them all alike.
func (c *contest) measure(ctx context.Context) (*results, error) {
	r := &results{
		Computer: rig.Computer(), Versions: c.main.Versions(ctx), Version: c.version, Beside: c.other,
		Began: time.Now().UTC().Truncate(time.Second), Rounds: c.settings.rounds, Seconds: c.settings.seconds,
		Instances: c.settings.instances, CPUs: rig.CPUs(),
	}
	for _, j := range c.jobs {
		r.Rows = append(r.Rows, &series{job: j, Rounds: make([]outcome, c.settings.rounds)})
	}
	began := time.Now()
	if err := c.warmUp(ctx); err != nil {
		return nil, err
	}
	first := slices.IndexFunc(c.jobs, func(j job) bool { return j.Load == due })
	if first < 0 {
		first = len(c.jobs)
	}
	for round := range c.settings.rounds {
		rig.Progress("round %d of %d: %d measurements of %d s", round+1, c.settings.rounds, len(c.jobs),
			c.settings.seconds)
		for i := range c.jobs {
			at := i // the open loops stay at the end
			if i < first {
				at = (i + round*first/c.settings.rounds) % first
			}
			o, err := c.run(ctx, r, round, c.jobs[at])
			if err == nil {
				err = c.alive()
			}
			if err != nil {
				if ctx.Err() == nil {
					err = errors.Join(err, c.alive(), c.complaints())
				}
				return nil, fmt.Errorf("round %d, %s: %w", round+1, c.jobs[at], err)
			}
			r.Rows[at].Rounds[round] = o
			rig.Progress("  %-30s %8.0f/s  p99 %8.2f ms  CPU %s µs each%s", c.jobs[at], o.Rate, o.P99, parts(o.CPU),
				others(o.Other))
		}
	}
	r.Minutes = time.Since(began).Minutes()
	return r, nil
}

func parts(cpu map[string]float64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(cpu)) {
		if cpu[name] >= 1 {
			list = append(list, fmt.Sprintf("%s %.0f", name, cpu[name]))
		}
	}
	return strings.Join(list, ", ")
}

func others(by map[string]int64) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(by)) {
		text += fmt.Sprintf(", %s %d", name, by[name])
	}
	return text
}

// warmUp loads every row for a second and measures nothing: pools are filled, scripts are loaded, and the JVM has
// compiled what it runs. A row that cannot work is found out before a round is spent.
func (c *contest) warmUp(ctx context.Context) error {
	rig.Progress("warming up")
	for _, j := range c.jobs {
		if j.Load != sold || j.Callers != many {
			continue
		}
		if err := c.warm(ctx, j, "warm-up"); err != nil {
			return fmt.Errorf("warm up %s: %w", j, errors.Join(err, c.alive()))
		}
	}
	return nil
}

// warm loads a row for a second.
func (c *contest) warm(ctx context.Context, j job, sku string) error {
	warm := *c
	warm.settings.seconds = 1
	_, err := warm.wrk(ctx, j, sku)
	return err
}

// alive returns an error with the end of the log of each server that has died.
func (c *contest) alive() error {
	var dead []error
	for _, side := range c.running() {
		if side != nil {
			dead = append(dead, side.Alive())
		}
	}
	return errors.Join(dead...)
}

// complaints are the warnings in the logs of the instances.
func (c *contest) complaints() error {
	var list []error
	for _, side := range c.running() {
		if side != nil && side != c.ping {
			list = append(list, side.Complaints())
		}
	}
	return errors.Join(list...)
}

// run measures a job once.
func (c *contest) run(ctx context.Context, r *results, round int, j job) (outcome, error) {
	row := strings.NewReplacer("/", "-", " ", "-", "+", "-").Replace(j.Row)
	name := fmt.Sprintf("bench-%d-%s-%s-%d", round, row, j.Load, j.Callers)
	switch j.Load {
	case due:
		base := r.find(slow, sold, few, true)
		if base == nil {
			base = r.find(slow, sold, few, false)
		}
		return c.openLoop(ctx, j, name, base.Rounds[round].Rate*dueShare)
	case loop:
		return c.store.run(ctx, j, name, time.Duration(c.settings.seconds)*time.Second)
	}
	if j.Row == traced {
		return c.onAndOff(ctx, j, name)
	}
	if c.side(j) != c.main {
		// It has been idle since its row in the last round: its memory was given back, and its caches have gone cold.
		if err := c.warm(ctx, j, name+"-warm-up"); err != nil {
			return outcome{}, err
		}
	}
	return c.wrk(ctx, j, name)
}

// stockOf is what is in stock for a row that sells: more than it can sell.
const stockOf = 1_000_000_000

// cutOff is the outcome of requests whose client has hung up.
const cutOff = "client_gone"

// wrk measures with a closed loop.
func (c *contest) wrk(ctx context.Context, j job, sku string) (o outcome, err error) {
	side := c.side(j)
	var quantity int64
	if j.Load == sold {
		quantity = stockOf
	}
	before := map[string]int64{}
	url, script := side.URL+"/ping", rig.Posts
	if j.Row != ping {
		if _, err := side.SetStock(ctx, j.store, sku, quantity); err != nil {
			return o, err
		}
		url, script = side.URL+"/v1/orders", rig.Carts(sku, nil)
		if j.Row == proven || j.Row == limited {
			script = rig.Carts(sku, c.door.customers)
		}
	}
	if j.strategy != "" {
		endpoint, err := side.Endpoint(j.strategy)
		if err != nil {
			return o, err
		}
		if before, err = side.Outcomes(ctx, j.strategy); err != nil {
			return o, err
		}
		url, script = fmt.Sprintf("%s%s?sku=%s&store=%s", side.URL, endpoint, sku, j.store), rig.Posts
	}
	begun := side.Read(ctx)
	l, err := rig.Wrk(ctx, c.folder, url, script, j.Callers, c.settings.seconds)
	if err != nil {
		return o, err
	}
	o.Done, o.P50, o.P99, o.Other = l.OK(), l.P50, l.P99, map[string]int64{}
	if l.Broken > 0 {
		o.Other["no reply"] = l.Broken
	}
	if ofOrders(j.Row) && l.Refused > 0 {
		o.Other["not sold"] = l.Refused
	}
	if j.strategy != "" {
		after, err := side.Outcomes(ctx, j.strategy)
		if err != nil {
			return o, err
		}
		others := o.note(j, before, after)
		if j.Load == refused {
			o.Done = max(0, l.Refused-others)
		}
	}
	o.use(side.Read(ctx).Since(begun), l.CPU, l.Seconds)
	o.Rate, o.Bytes = float64(o.Done)/l.Seconds, l.Bytes/float64(max(l.Requests, 1))
	if o.Done == 0 {
		return o, fmt.Errorf("not one request was %s: %v", j.Load, o.Other)
	}
	switch {
	case j.Row == ping:
		return o, nil
	case ofOrders(j.Row):
		if err := side.BalanceOrders(ctx, sku, l.OK(), int64(j.Callers)); err != nil {
			return o, err
		}
		return o, side.ForgetOrders(ctx)
	}
	if _, err := side.Balance(ctx, j.store, sku, l.OK(), int64(j.Callers)); err != nil {
		return o, err
	}
	return o, side.Forget(ctx, j.store, sku)
}

// note adds the outcomes of the strategy that are not what j is to have, and returns how many they are.
func (o *outcome) note(j job, before, after map[string]int64) (others int64) {
	expected := "accepted"
	if j.Load == refused {
		expected = "sold_out"
	}
	for outcome, n := range after {
		n -= before[outcome]
		if outcome == cutOff {
			n -= int64(j.Callers) // wrk hangs up at its end
		}
		if n > 0 && outcome != expected {
			o.Other[outcome] = n
			others += n
		}
	}
	return others
}

// dueShare is the rate of the open loop: this share of what the slowest row sold in the closed loop of the round. All
// can follow it, and the slow one has to queue.
const dueShare = 0.7

// inFlight bounds the connections of the open loop, all of which are opened before it begins. What is due beyond it is
// dropped, and told.
const inFlight = 256

// openLoop measures p99 with requests that are due at a time, whether or not the last one is answered.
func (c *contest) openLoop(ctx context.Context, j job, sku string, rate float64) (o outcome, err error) {
	side := c.side(j)
	begun, self := side.Read(ctx), rig.SelfTime()
	began := time.Now()
	result, err := loadtest.Run(ctx, side.Client, loadtest.Plan{
		Strategy: j.strategy, Store: j.store, SKU: sku, Stock: stockOf, Seed: 1,
		Rate: loadtest.Rate{From: rate, To: rate}, Duration: time.Duration(c.settings.seconds) * time.Second,
		MaxInFlight: inFlight,
	}, nil)
	switch {
	case err != nil:
		return o, err
	case result.Interrupted:
		return o, context.Cause(ctx)
	case !result.Verdict.Kept:
		return o, fmt.Errorf("%w: the verdict of the load generator: %+v", rig.ErrBooks, result.Verdict)
	}
	accepted := result.Latency.Accepted()
	o.Done, o.P50, o.P99, o.Offered = accepted.Count, accepted.P50, accepted.P99, rate
	o.Rate, o.Other = result.Latency.Sold, map[string]int64{}
	for outcome, q := range result.Latency.ByOutcome {
		if outcome != loadtest.Accepted {
			o.Other[string(outcome)] = q.Count
		}
	}
	if result.Dropped > 0 {
		o.Other["dropped"] = int64(result.Dropped)
	}
	if late := result.Latency.Late; late > 0 {
		o.Other["sent late"] = int64(late)
	}
	o.use(side.Read(ctx).Since(begun), rig.SelfTime()-self, time.Since(began).Seconds())
	if o.Done == 0 {
		return o, fmt.Errorf("not one request was accepted: %v", o.Other)
	}
	return o, side.Forget(ctx, j.store, sku)
}

// use records what the parts did for each done. client is the CPU time of the load generator.
func (o *outcome) use(r rig.Reading, client, seconds float64) {
	done := float64(max(o.Done, 1))
	rest := r.Busy - client
	o.CPU, o.Counts = map[string]float64{"client": round3(client / done)}, map[string]float64{}
	for name, us := range r.CPU {
		rest -= us
		o.CPU[name] = round3(us / done)
	}
	for name, n := range r.Counts {
		o.Counts[name] = round3(n / done)
	}
	o.Load, o.Others = rig.LoadAverage(), round3(max(0, rest/seconds/1e6))
}

func round3(f float64) float64 { return float64(int64(f*1000+.5)) / 1000 }

// find returns the series of a job, or nil.
func (r *results) find(row, load string, callers int, beside bool) *series {
	i := slices.IndexFunc(r.Rows, func(s *series) bool {
		return s.Row == row && s.Load == load && s.Callers == callers && s.Beside == beside
	})
	if i < 0 {
		return nil
	}
	return r.Rows[i]
}

// A spread is the median of something over the rounds, with the smallest and the largest.
type spread struct{ median, least, most float64 }

func spreadOf(all []float64) (s spread, ok bool) {
	if len(all) == 0 {
		return s, false
	}
	all = slices.SortedFunc(slices.Values(all), cmp.Compare[float64])
	mid := len(all) / 2
	s = spread{all[mid], all[0], all[len(all)-1]}
	if len(all)%2 == 0 {
		s.median = (all[mid-1] + all[mid]) / 2
	}
	return s, true
}

// over returns a figure of a series, over the rounds.
func (s *series) over(of func(outcome) float64) (spread, bool) {
	if s == nil {
		return spread{}, false
	}
	var all []float64
	for _, o := range s.Rounds {
		all = append(all, of(o))
	}
	return spreadOf(all)
}

// ratio returns the ratios within each round: what slows the computer down for a while slows both.
func (s *series) ratio(to *series, of, ofOther func(outcome) float64) (spread, bool) {
	if s == nil || to == nil {
		return spread{}, false
	}
	var all []float64
	for i, o := range s.Rounds {
		if i < len(to.Rounds) && ofOther(to.Rounds[i]) > 0 {
			all = append(all, of(o)/ofOther(to.Rounds[i]))
		}
	}
	return spreadOf(all)
}

func rate(o outcome) float64 { return o.Rate }
func p50(o outcome) float64  { return o.P50 }
func p99(o outcome) float64  { return o.P99 }

// serverCPU is what the store and the service take for each done, in µs; nginx and the client are apart.
func serverCPU(store string) func(outcome) float64 {
	return func(o outcome) float64 { return o.CPU[store] + o.CPU[rig.PartService] }
}

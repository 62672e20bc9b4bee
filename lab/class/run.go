package class

import (
	"context"
	"slices"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// Limits of a plan.
const (
	maxStock    = 1000
	maxRequests = 100
	maxThink    = 10_000 // ms; more than the slider's 2 s, for scenes
)

// check completes a plan, or returns an InputError.
func (c *Class) check(p *RunPlan) error {
	s, err := loadtest.Find(c.catalog, p.Strategy)
	if err != nil {
		return wrong("strategy", "not_listed")
	}
	if p.Store == "" || !slices.Contains(s.Stores, p.Store) {
		p.Store = s.DefaultStore
	}
	for _, n := range []struct {
		field              string
		value, least, most int
	}{
		{"stock", int(p.Stock), 1, maxStock},
		{"requests", p.Requests, 0, maxRequests},
		{"think_ms", p.ThinkMS, 0, maxThink},
		{"seconds", p.Seconds, 0, maxRated / max(1, p.Rate)},
	} {
		if err := within(n.field, n.value, n.least, n.most); err != nil {
			return err
		}
	}
	if p.Rate != 0 {
		if err := within("rate", p.Rate, 1, maxRate); err != nil {
			return err
		}
	}
	if p.Scene == "" {
		p.Goods = 0
	}
	if p.Rate > 0 {
		p.Requests = 0
	} else {
		p.Seconds = 0
	}
	if p.Instances < 1 || p.Instances > 3 {
		p.Instances = 3
	}
	p.Exclusive, p.Scope, p.Fenced = s.Promise.Exclusive, s.Promise.Scope, s.Promise.Fenced
	return nil
}

// Fire begins a run: it sets the stock and sends the requests of the plan, all at once or at its rate.
func (c *Class) Fire(p RunPlan) error {
	c.stopScene()
	run, err := c.begin(c.ctx, p)
	if err != nil {
		return err
	}
	if p.Rate > 0 {
		c.fireSteadily(run)
	} else {
		c.fireAll(run, p.Requests)
	}
	return nil
}

// begin ends the current run and begins one without requests. It sets the new stock first; if that fails, the old run
// continues.
func (c *Class) begin(ctx context.Context, p RunPlan) (run int, err error) {
	if err := c.check(&p); err != nil {
		return 0, err
	}
	c.playing.Lock()
	defer c.playing.Unlock()
	c.mu.Lock()
	run = c.run + 1
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, app := range c.up() {
		for _, sku := range skusOf(run, &p) {
			if _, err = c.clients[app.Name].SetStock(ctx, p.Store, sku, p.Stock); err != nil {
				break
			}
		}
		if err == nil {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	c.endRun()
	c.mu.Lock()
	c.run, c.asking = run, begun(c.ctx)
	c.plan, c.sent, c.left = p, 0, 0
	c.mu.Unlock()
	if c.voting().On {
		_ = c.CloseVote(nil) // without hands it cannot fail
	}
	units := p.Stock * int64(max(1, p.Goods))
	c.note(RunEvent{Kind: runBegan, Run: run, Plan: &p})
	c.note(RunEvent{Kind: stockSeen, Run: run, Stock: &StockSeen{true, units, units, 0}})
	return run, nil
}

// endRun ends the current run. It cancels requests without a reply, and resumes paused sales.
func (c *Class) endRun() {
	c.mu.Lock()
	old, open := c.asking, c.left > 0
	c.mu.Unlock()
	old.stop()
	if open {
		_ = c.Step() // ignored: in an instance that does not answer, paused sales resume by themselves within a minute
	}
}

// fireAll sends n requests of a run to nginx, or to the first instance if the plan says so.
func (c *Class) fireAll(run, n int) {
	c.mu.Lock()
	to := ""
	if c.plan.Instances == 1 {
		to = c.apps[0].Name
	}
	c.mu.Unlock()
	for range n {
		c.fire(shot{to: to, run: run})
	}
}

// A shot is a request to be sent. The zero value is sent to nginx, for no customer.
type shot struct {
	who   string   // the customer
	to    string   // an instance
	pause []string // pause points
	again string   // the request whose Idempotency-Key it repeats; empty: a new key
	good  int      // the SKU
	run   int      // 0: the current run
}

// fire sends a request of the run, without waiting for the reply. It returns the id of the request, or "" if the run is
// not the current one.
//
// Each request has an Idempotency-Key, so that it can be sent again.
func (c *Class) fire(s shot) (id string) {
	c.mu.Lock()
	if c.run == 0 || s.run != 0 && s.run != c.run || c.asking.ctx.Err() != nil {
		c.mu.Unlock()
		return ""
	}
	asking := c.asking
	asking.on.Add(1)
	c.sent++
	c.left++
	run, p := c.run, c.plan
	id = nameOf(run, c.sent)
	c.mu.Unlock()
	strategy, _ := loadtest.Find(c.catalog, p.Strategy) // begin has checked it
	key := id
	if s.again != "" {
		key = s.again
	}
	request := loadtest.Request{
		Endpoint: strategy.Endpoint, Store: p.Store, SKU: skuAt(run, s.good), Quantity: 1, RequestID: id,
		IdempotencyKey: key,
		Lab: loadtest.LabOptions{
			Hold: time.Duration(p.ThinkMS) * time.Millisecond, Unfenced: p.Unfenced,
			IgnoreLoss: p.IgnoreLoss, Pause: s.pause,
		},
	}
	client := c.front
	if s.to != "" {
		client = c.clients[s.to]
	}
	c.note(RunEvent{Kind: fired, Run: run, Req: id, Who: s.who, Key: s.again})
	c.owned.Go(func() {
		defer asking.on.Done()
		reply := client.Deduct(asking.ctx, request)
		c.answered(run, id, reply)
	})
	return id
}

// answered records a reply.
func (c *Class) answered(run int, id string, reply loadtest.Reply) {
	e := RunEvent{Kind: answered, Run: run, Req: id, Outcome: reply.Problem, Replayed: reply.Replayed}
	if r := reply.Receipt; r != nil {
		e.Wakes = r.Wakeups
		if r.Batch != nil {
			e.Batch = r.Batch.ID
		}
	}
	switch {
	case reply.Outcome == loadtest.Accepted:
		e.Outcome = accepted
	case e.Outcome == "":
		e.Outcome = "no_reply"
	}
	c.note(e)
	c.leave(run)
}

// leave counts a finished request of a run. After the last one it reads the stock, which decides the verdict.
func (c *Class) leave(run int) {
	c.mu.Lock()
	last := false
	if c.run == run {
		c.left--
		last = c.left == 0
	}
	c.mu.Unlock()
	if last {
		c.note(RunEvent{Kind: allFired, Run: run})
		c.readStock(c.ctx)
	}
}

// stateOf returns the state of a server.
func (c *Class) stateOf(name string) (state string) {
	c.look(func(s *State) { state = s.stateOf(name) })
	return state
}

// up returns the running instances.
func (c *Class) up() []*server.Server {
	return slices.DeleteFunc(slices.Clone(c.apps), func(s *server.Server) bool { return c.stateOf(s.Name) != "up" })
}

// Again repeats a request of this run with its key, as a client without a reply would.
func (c *Class) Again(req string) error {
	s := shot{run: runOf(req)}
	c.look(func(state *State) {
		if r := state.reqs[req]; r != nil && r.fired != nil {
			s.who, s.again = r.fired.Who, req
			if r.fired.Key != "" {
				s.again = r.fired.Key
			}
		}
	})
	if s.again == "" || c.fire(s) == "" {
		return wrong("req", "other_run")
	}
	return nil
}

// Hold makes a request pause at a point.
func (c *Class) Hold(req, point string) error {
	app := c.appOf(req)
	if app == "" {
		return wrong("req", "no_instance")
	}
	return c.lab(app, "PUT", "/v1/lab/pauses/"+req+"?pause="+point)
}

// Go resumes a request.
func (c *Class) Go(req string) error {
	app := c.appOf(req)
	if app == "" {
		return wrong("req", "no_instance")
	}
	return c.lab(app, "DELETE", "/v1/lab/pauses/"+req)
}

// appOf returns the instance that has a request.
func (c *Class) appOf(req string) (app string) {
	c.look(func(s *State) {
		if r := s.reqs[req]; r != nil {
			app = r.seen.App
		}
	})
	return app
}

// everyPoint lists the pause points at which sales stop while Pause is on.
const everyPoint = "before_lock,after_lock,after_read,before_write,after_write"

// Pause makes every sale stop at each pause point, or resumes all.
func (c *Class) Pause(on bool) error {
	query := ""
	if on {
		query = "?pause=" + everyPoint
	}
	err := c.everyLab("PUT", "/v1/lab/pauses"+query)
	c.note(RunEvent{Kind: pausing, On: on})
	return err
}

// Step resumes every paused sale until its next point.
func (c *Class) Step() error { return c.everyLab("DELETE", "/v1/lab/pauses") }

// everyLab sends a lab request to all running instances.
func (c *Class) everyLab(method, path string) (err error) {
	for _, app := range c.up() {
		if failed := c.lab(app.Name, method, path); failed != nil {
			err = failed
		}
	}
	return err
}

// lab sends a lab request to an instance's listener for operators.
func (c *Class) lab(app, method, path string) error {
	ctx, cancel := context.WithTimeout(c.ctx, 2*time.Second)
	defer cancel()
	if admin := c.admins[app]; admin != nil {
		return admin.Call(ctx, method, path, nil, nil)
	}
	return wrong("app", "body")
}

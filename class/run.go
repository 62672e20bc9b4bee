package class

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/stock/loadtest"
)

// Limits of a plan.
const (
	maxStock    = 1000
	maxRequests = 100
	maxThink    = 10_000 // ms; the slider ends at 2 s, and scenes need more
)

// check completes a plan, and says what of it is wrong.
func (c *Class) check(p *Plan) error {
	s, err := loadtest.Find(c.catalog, p.Strategy)
	if err != nil {
		return &InputError{"strategy", "must be one of the list"}
	}
	if p.Store == "" || !slices.Contains(s.Stores, p.Store) {
		if p.Store != "" && p.Store != "redis" && p.Store != "mysql" {
			return &InputError{"store", "must be redis or mysql"}
		}
		p.Store = s.DefaultStore
	}
	for _, n := range []struct {
		field              string
		value, least, most int
	}{
		{"stock", int(p.Stock), 1, maxStock},
		{"requests", p.Requests, 0, maxRequests},
		{"think_ms", p.ThinkMS, 0, maxThink},
	} {
		if n.value < n.least || n.value > n.most {
			return &InputError{n.field, fmt.Sprintf("must be from %d to %d", n.least, n.most)}
		}
	}
	if p.Instances != 1 {
		p.Instances = 3
	}
	p.Exclusive, p.Scope, p.Fenced = s.Promise.Exclusive, s.Promise.Scope, s.Promise.Fenced
	return nil
}

// Fire begins a run: it sets the stock and sends the requests of the plan, all at once.
func (c *Class) Fire(p Plan) error {
	c.stopScene()
	if err := c.begin(c.ctx, p); err != nil {
		return err
	}
	c.fireAll(p.Requests)
	return nil
}

// begin sets the stock for a run without requests. Stock remembers the strategy that sold first, so each run sets it.
func (c *Class) begin(ctx context.Context, p Plan) error {
	if err := c.check(&p); err != nil {
		return err
	}
	c.playing.Lock()
	defer c.playing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	for _, app := range c.apps {
		if c.stateOf(app.Name) != "up" {
			continue
		}
		if _, err = c.clients[app.Name].SetStock(ctx, p.Store, sku, p.Stock); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("set the stock: %w", err)
	}
	c.mu.Lock()
	c.run++
	c.plan, c.sent, c.left = p, 0, 0
	run := c.run
	open := c.ballot
	c.mu.Unlock()
	if open {
		c.Vote(false)
	}
	c.note(Event{Kind: runBegan, Run: run, Plan: &p})
	c.note(Event{Kind: stockSeen, Run: run, Stock: &StockSeen{true, p.Stock, p.Stock, 0}})
	return nil
}

// fireAll sends n requests to nginx, or to the first instance if the plan says so.
func (c *Class) fireAll(n int) {
	c.mu.Lock()
	to := ""
	if c.plan.Instances == 1 {
		to = c.apps[0].Name
	}
	c.mu.Unlock()
	for range n {
		c.fire("", to, nil)
	}
}

// fire sends one more request of the run, for a customer with a name or for nobody, to an instance or to nginx. It does
// not wait for the reply. It returns the id of the request, or "" if there is no run.
func (c *Class) fire(who, to string, pause []string) (id string) {
	c.mu.Lock()
	if c.run == 0 {
		c.mu.Unlock()
		return ""
	}
	c.sent++
	c.left++
	run, p := c.run, c.plan
	id = fmt.Sprintf("r%d.%d", run, c.sent)
	c.mu.Unlock()
	s, err := loadtest.Find(c.catalog, p.Strategy)
	if err != nil {
		return "" // begin has found it
	}
	request := loadtest.Request{
		Endpoint: s.Endpoint, Store: p.Store, SKU: sku, Quantity: 1, RequestID: id,
		Lab: loadtest.LabOptions{
			Hold: time.Duration(p.ThinkMS) * time.Millisecond, Unfenced: p.Unfenced, IgnoreLoss: p.Deaf, Pause: pause,
		},
	}
	client := c.front
	if to != "" {
		client = c.clients[to]
	}
	c.note(Event{Kind: fired, Run: run, Req: id, Who: who})
	c.owned.Go(func() {
		reply := client.Deduct(c.ctx, request)
		c.answered(run, id, reply)
	})
	return id
}

// answered records a reply. After the last one the stock is read once more: that is what the verdict goes by.
func (c *Class) answered(run int, id string, reply loadtest.Reply) {
	e := Event{Kind: answered, Run: run, Req: id, Outcome: reply.Problem}
	switch {
	case reply.Outcome == loadtest.Accepted:
		e.Outcome = accepted
	case e.Outcome == "":
		e.Outcome = "no_reply"
	}
	c.note(e)
	c.mu.Lock()
	last := false
	if c.run == run {
		c.left--
		last = c.left == 0
	}
	c.mu.Unlock()
	if last {
		c.note(Event{Kind: allFired, Run: run})
		c.readStock(c.ctx)
	}
}

// stateOf returns the state of a server.
func (c *Class) stateOf(server string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states[server]
}

// Hold makes a request stop at a point as soon as it gets there.
func (c *Class) Hold(req, point string) error {
	app := c.appOf(req)
	if app == "" {
		return &InputError{"req", "no instance has it"}
	}
	return c.lab(app, "PUT", "/v1/lab/pauses/"+req+"?pause="+point)
}

// Go lets a request go on.
func (c *Class) Go(req string) error {
	app := c.appOf(req)
	if app == "" {
		return &InputError{"req", "no instance has it"}
	}
	return c.lab(app, "DELETE", "/v1/lab/pauses/"+req)
}

// appOf returns the instance that has a request.
func (c *Class) appOf(req string) (app string) {
	c.look(func(s *State) {
		if r := s.reqs[req]; r != nil {
			app = r.token(req).App
		}
	})
	return app
}

// everyPoint is where a sale stops when everything is paused.
const everyPoint = "before_lock,after_lock,after_read,before_write,after_write"

// Pause makes every sale stop at each of its points, or lets all go on.
func (c *Class) Pause(on bool) error {
	query := ""
	if on {
		query = "?pause=" + everyPoint
	}
	err := c.everyLab("PUT", "/v1/lab/pauses"+query)
	c.note(Event{Kind: pausing, On: on})
	return err
}

// Step lets every sale that stands go on to its next point.
func (c *Class) Step() error { return c.everyLab("DELETE", "/v1/lab/pauses") }

// everyLab asks all instances that run.
func (c *Class) everyLab(method, path string) (err error) {
	for _, app := range c.apps {
		if c.stateOf(app.Name) == "up" {
			if failed := c.lab(app.Name, method, path); failed != nil {
				err = failed
			}
		}
	}
	return err
}

// lab asks the listener for operators of an instance.
func (c *Class) lab(app, method, path string) error {
	ctx, cancel := context.WithTimeout(c.ctx, 2*time.Second)
	defer cancel()
	for _, server := range c.apps {
		if server.Name == app {
			client, err := loadtest.NewClient(server.Admin, c.admin, 0)
			if err != nil {
				return err
			}
			defer client.Close()
			return client.Call(ctx, method, path, nil, nil)
		}
	}
	return &InputError{"app", "there is none of that name"}
}

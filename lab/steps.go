package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// A Step is one step of a sale, as its instance reported it.
type Step struct {
	Number    uint64 `json:"number"` // from 1, in each process
	AtUS      int64  `json:"at_us"`
	Kind      string `json:"kind"`
	RequestID string `json:"request_id"`
	Read      int64  `json:"read"`
	Remaining int64  `json:"remaining"`
	Version   uint64 `json:"version"`
	Epoch     uint64 `json:"epoch"`
	Segment   int    `json:"segment"`
	Fence     string `json:"fence"`
	Point     string `json:"point"`
	Outcome   string `json:"outcome"`
	Replayed  bool   `json:"replayed"`
	SKU       string `json:"sku"`
	Batch     string `json:"batch"`
}

func (s *Step) at() time.Time { return time.UnixMicro(s.AtUS).UTC() }

// Steps reads the steps of one instance, each once and in order, and calls Tell with each. boot tells the processes of
// the instance apart, and missed is how many steps before this one the process has forgotten.
type Steps struct {
	Admin, Token string // of the instance
	Tell         func(boot int64, missed uint64, s *Step)

	boot int64
	last uint64 // last number read within boot
}

// Follow reads until ctx ends. What was read before the instance died or froze is told.
func (r *Steps) Follow(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		_ = r.read(ctx, client) // the loop tries again
		_ = loadtest.Sleep(ctx, watchEvery)
	}
}

// read reads one stream to its end, from the oldest step that the instance keeps.
func (r *Steps) read(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Admin+"/v1/lab/steps?after=0", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the instance answered %s", res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := r.Message([]byte(data)); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// Message tells the steps of one message of the stream that are new.
func (r *Steps) Message(data []byte) error {
	var m struct {
		Boot  int64
		Steps []Step
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	if m.Boot != r.boot {
		r.boot, r.last = m.Boot, 0
	}
	for i := range m.Steps {
		s := &m.Steps[i]
		if s.Number <= r.last {
			continue
		}
		missed := s.Number - r.last - 1
		r.last = s.Number
		r.Tell(m.Boot, missed, s)
	}
	return nil
}

// follow keeps the steps of this case's requests on an instance until the case ends.
func (b *Testbed) follow(app *App) {
	steps := &Steps{Admin: app.Server.Admin, Token: token, Tell: func(_ int64, _ uint64, s *Step) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if strings.HasPrefix(s.RequestID, b.SKU+".") {
			b.told[s.RequestID] = append(b.told[s.RequestID], *s)
		}
	}}
	b.Go(steps.Follow)
}

// awaitSteps waits for the last steps of the answered sales, at most a second, because a reply may overtake the stream.
func (b *Testbed) awaitSteps() {
	for began := time.Now(); time.Since(began) < time.Second && b.Ctx.Err() == nil; {
		open := false
		b.mu.Lock()
		for _, c := range b.calls {
			steps := b.told[c.ID]
			open = open || c.Answered() && c.record.Status > 0 && c.App.Pid() != 0 &&
				(len(steps) == 0 || steps[len(steps)-1].Kind != "ended")
		}
		b.mu.Unlock()
		if !open {
			return
		}
		_ = loadtest.Sleep(b.Ctx, 5*time.Millisecond)
	}
}

// fewCustomers is the largest number of customers whose sales are drawn step by step.
const fewCustomers = 12

// drawSales records the steps of the sales. Where an instance reported none, as after a kill, it derives them from the
// replies.
func (b *Testbed) drawSales() {
	few := len(b.calls) <= fewCustomers
	for _, c := range b.calls {
		if steps := b.told[c.ID]; few && len(steps) > 0 {
			c.drawSteps(steps)
			continue
		}
		r := &c.record
		switch {
		case r.Receipt != nil:
			at, wrote := r.ReadAt, r.WrittenAt
			if at.IsZero() || wrote.IsZero() {
				at, wrote = r.AcquiredAt, r.ReleasedAt
			}
			if few && at.Before(wrote) {
				c.drawRead(at, r.Read, r.Version)
			}
			c.drawWrite(wrote, r.Read, r.Remaining, r.Version, r.Fence, r.Segment)
		case isRefusal(r.Problem) && !c.over.IsZero():
			c.drawRefusal(c.over, r.Problem, 0, "store")
		}
	}
}

func isRefusal(problem string) bool { return problem == "stale_fence" || problem == "lock_lost" }

func (c *Call) draw(e CaseEvent, said Text) {
	e.Lane, e.Who = c.App.Name, c.Who
	c.b.timeline.Record(e, said)
}

func (c *Call) drawRead(at time.Time, read int64, version uint64) {
	c.draw(CaseEvent{At: at, Kind: Read, To: "store", Read: &read, Version: version},
		say("says.read", "who", c.Who, "read", read, "version", version))
}

func (c *Call) drawWrite(at time.Time, read, left int64, version, fence uint64, segment int) {
	e := CaseEvent{At: at, Kind: Write, To: "store", Read: &read, Left: &left, Version: version, Fence: fence}
	if segment > 0 || c.record.SKU != c.b.SKU {
		e.Left = nil // of another stock, or of a segment
	}
	c.draw(e, say("says.wrote", "who", c.Who, "read", read, "left", left))
}

func (c *Call) drawRefusal(at time.Time, problem string, fence uint64, to string) {
	c.draw(CaseEvent{At: at, Kind: Refused, To: to, Fence: fence},
		say("says.refused", "who", c.Who, "problem", problem))
}

// lockLane returns the lane of the server that has the strategy's lock, or "" if there is none.
func (c *Call) lockLane() string {
	switch p := c.b.Promise; {
	case !p.Exclusive && p.Scope != loadtest.Process:
		return ""
	case p.Scope == loadtest.Process:
		return "lock in " + c.App.Name
	}
	return "lock"
}

// drawSteps records the steps of one sale that an instance reported.
func (c *Call) drawSteps(steps []Step) {
	d := &saleDrawing{c: c, lock: c.lockLane(), outcome: steps[len(steps)-1].Outcome}
	for i := range steps {
		d.step(&steps[i])
	}
}

// A saleDrawing draws a sale step by step.
type saleDrawing struct {
	c       *Call
	lock    string // the lane of the lock, or "" if there is none
	outcome string // of the sale

	held     bool
	thinks   time.Time // when it began to think; zero: it does not
	sent     time.Time // when it sent a write that has no answer yet
	conflict time.Time // when a try ended without a sale; drawn once another try begins
}

func (d *saleDrawing) step(s *Step) {
	c := d.c
	fence, _ := strconv.ParseUint(s.Fence, 10, 64)
	switch s.Kind {
	case "waits":
		if d.lock != "" {
			c.draw(CaseEvent{At: s.at(), Kind: Asks, To: d.lock}, say("says.asks-lock", "who", c.Who))
		}
	case "acquired":
		d.acquired(s.at(), fence)
	case "read":
		if !d.conflict.IsZero() {
			c.draw(CaseEvent{At: d.conflict, Kind: Refused, To: "store"}, say("says.conflict", "who", c.Who))
			d.conflict = time.Time{}
		}
		c.drawRead(s.at(), s.Read, s.Version)
	case "thinks":
		d.thinks = s.at()
	case "writes":
		d.sent = s.at()
		d.thought()
	case "wrote":
		d.sent = time.Time{}
		c.drawWrite(s.at(), s.Read, s.Remaining, s.Version, fence, s.Segment)
	case "released":
		d.released(s.at(), fence)
	case "ended":
		if isRefusal(s.Outcome) && d.sent.IsZero() { // it was refused before it wrote
			c.drawRefusal(s.at(), s.Outcome, 0, "")
		}
	}
}

func (d *saleDrawing) acquired(at time.Time, fence uint64) {
	if d.lock == "" || d.held {
		return
	}
	d.held = true
	said := say("says.gets-lock", "who", d.c.Who)
	if fence > 0 {
		said = say("says.gets-lock-with-fence", "who", d.c.Who, "fence", fence)
	}
	d.c.draw(CaseEvent{At: at, Kind: Gets, To: d.lock, Fence: fence}, said)
}

// thought draws the time from the read to the write, unless it is short or the customer stood at a pause point.
func (d *saleDrawing) thought() {
	from := d.thinks
	d.thinks = time.Time{}
	if from.IsZero() || d.sent.Sub(from) <= thoughtful || d.c.b.stood(d.c.Who, from, d.sent) {
		return
	}
	d.c.draw(CaseEvent{At: from, Until: d.sent, Kind: Thinks},
		say("says.thinks", "who", d.c.Who, "for", d.sent.Sub(from)))
}

// released draws the answer to a write that was refused, and the release of the lock. A write without an answer that is
// no refusal met a conflict of versions.
func (d *saleDrawing) released(at time.Time, fence uint64) {
	switch {
	case d.sent.IsZero():
	case isRefusal(d.outcome):
		d.c.drawRefusal(at, d.outcome, fence, "store")
	default:
		d.conflict, d.sent = at, time.Time{}
	}
	if d.held {
		d.held = false
		d.c.draw(CaseEvent{At: at, Kind: Gives, To: d.lock}, say("says.gives-lock", "who", d.c.Who))
	}
}

// thoughtful is the shortest time between read and write that is drawn.
const thoughtful = 5 * time.Millisecond

// stood reports whether a customer waited at a pause point between two moments. Then the interval is no thinking time.
func (b *Testbed) stood(who string, from, until time.Time) bool {
	return slices.ContainsFunc(b.timeline.Events(), func(e CaseEvent) bool {
		return e.Kind == Paused && e.Who == who && e.At.Before(until) && e.Until.After(from)
	})
}

package checkout

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// A Book has the service's ledger and the events of one SKU.
type Book struct {
	Before    Counts     `json:"before"` // after the stock was set
	After     Counts     `json:"after"`
	Movements []Movement `json:"-"` // with the numbers after Before to After
	Events    []Event    `json:"-"` // with numbers after Before; see Evidence.Unheard
}

// Total adds up the counters of all SKUs at the end.
func Total(books []Book) (sum Counts) {
	for i := range books {
		c := books[i].After
		sum.Received += c.Received
		sum.Available += c.Available
		sum.Reserved += c.Reserved
		sum.Sold += c.Sold
	}
	return sum
}

// Evidence is all evidence of a run.
type Evidence struct {
	Run     string
	Limit   int64    // per customer and SKU; 0: none
	Records []Record // by Seq
	Books   []Book
	// Orders are all that the service lists for the customers of the run, and Reservations those named in replies.
	Orders       []Thing
	Reservations []Thing
	ReadAt       time.Time  // start of the last reading of the books, by the clock of the records; zero: never
	Unheard      words.Text // why events were not read; zero: they were
	Unread       words.Text // why the books could not be read; zero: they were
}

// A Result is everything known about one run.
type Result struct {
	Format      string         `json:"format"`
	Version     int            `json:"version"`
	Plan        Plan           `json:"plan"`
	Target      string         `json:"target"`
	Run         string         `json:"run"` // prefix of its customers and keys
	Command     string         `json:"command"`
	StartedAt   time.Time      `json:"started_at"`
	Interrupted bool           `json:"interrupted"`
	Evidence    Evidence       `json:"-"`
	Books       []Book         `json:"books"`
	Verdict     Verdict        `json:"verdict"`
	Ran         []loadtest.Ran `json:"ran,omitempty"` // the commands of Plan.At
	Figures     Figures        `json:"figures"`
	Heard       string         `json:"events,omitempty"` // where events were read; "": nowhere
}

// The format and version of the JSON of a Result.
const (
	ReportFormat  = "stock-checkout-report"
	ReportVersion = 1
)

// Progress describes how far a run is.
type Progress struct {
	Visits, Total int // with a reply, and in all; 0: the run is limited by time
	Requests      int // attempts so far
	Outcomes      map[Outcome]int
	Elapsed       time.Duration
	Phase         words.Text // current phase
	Last          bool
}

// lookLimit bounds the time for reading the books.
const lookLimit = 2 * time.Minute

// Run sets the stock, runs the customers, settles requests with unknown outcomes, reads the books, and judges.
//
// Several shops are instances of one service; a retry goes to another one. Events are read from feed, unless it is nil.
// Run calls progress, if not nil, about five times a second. If ctx ends, Run judges the requests so far and returns no
// error. Errors are loadtest.PlanErrors, loadtest.TargetErrors, ctx's error if it ended before the first request, and
// errors of Plan.History, which come with a Result.
func Run(ctx context.Context, shops []*loadtest.Client, p Plan, feed Feed, progress func(Progress)) (*Result, error) {
	s, err := Open(ctx, shops, p, feed)
	if err != nil {
		return nil, err
	}
	s.Progress = progress
	s.Sell(ctx)
	return s.Judge(ctx)
}

// A Shopping is a run in three steps, Open, Sell and Judge, between which the caller can act.
type Shopping struct {
	Progress func(Progress) // may be nil

	result *Result
	sale   *sale
	feed   Feed
	out    *loadtest.LineWriter

	mu       sync.Mutex
	visits   int // of which an attempt has ended
	attempts int
	last     time.Time // when the latest request with a reply was sent
	outcomes map[Outcome]int
}

// Open sets the stock. Its errors are those of Run.
func Open(ctx context.Context, shops []*loadtest.Client, p Plan, feed Feed) (*Shopping, error) {
	p, err := p.Filled()
	if err != nil {
		return nil, err
	}
	r := &Result{
		Format: ReportFormat, Version: ReportVersion, Target: shops[0].URL(), Plan: p,
		Run: strings.ToLower(rand.Text()[:12]), // prefix of request ids, which must not reveal the load generator
	}
	r.Command = p.Command(r.Target)
	weights, _ := p.Skew.Weights(p.SKUs)
	for _, sku := range p.Names() {
		before, err := prepare(ctx, shops[0], sku, p.Stock, p.limit())
		if err != nil {
			return nil, err
		}
		r.Books = append(r.Books, Book{Before: before})
	}
	// The first customer may be refused, for want of a token or for a wrong one. Then all would be.
	if _, err := ReadOrders(ctx, shops[0], customerOf(r.Run, 1)); err != nil {
		return nil, withoutToken(err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if feed != nil {
		r.Heard = feed.Name()
	}
	s := &Shopping{
		result: r, feed: feed, out: loadtest.NewLineWriter(p.History), outcomes: make(map[Outcome]int),
		sale: &sale{
			plan: p, shops: shops, run: r.Run, weights: weights, clock: loadtest.StartClock(),
		},
	}
	r.StartedAt = s.sale.clock.At(0)
	r.writeHeader(s.out)
	return s, nil
}

// withoutToken returns what to do if the service refuses a customer.
func withoutToken(err error) error {
	var problem *loadtest.Problem
	refused := []int{http.StatusUnauthorized, http.StatusForbidden}
	if errors.As(err, &problem) && slices.Contains(refused, problem.Status) {
		return &loadtest.PlanError{Field: "token-command", Reason: say("token-command", "why", problem.Detail)}
	}
	return err
}

// DoneSince reports whether a request that was sent after t has succeeded or was justly refused.
func (s *Shopping) DoneSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.After(t)
}

// Attempts returns the numbers of all and of successful attempts.
func (s *Shopping) Attempts() (all, done int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts, s.outcomes[Done]
}

// Sell runs the customers until all visits are made, the time is over, or ctx ends. Then requests in flight have
// loadtest.Grace to end. Sell returns when all workers have ended.
func (s *Shopping) Sell(ctx context.Context) {
	p := &s.sale.plan
	g := loadtest.Generator[Record]{
		Plan: &loadtest.Plan{
			Requests: p.Visits, Duration: p.Duration, Concurrency: p.Concurrency, At: p.At, Log: p.Log,
		},
		Clock: s.sale.clock, Call: s.sale.call, Each: s.keep, Tick: func() { s.tell("visits", false) },
	}
	s.result.Ran = g.Run(ctx)
	s.result.Interrupted = ctx.Err() != nil
}

// keep stores a record. It is called by one goroutine at a time.
func (s *Shopping) keep(r *Record) {
	r.Seq = len(s.result.Evidence.Records) + 1
	s.result.Evidence.Records = append(s.result.Evidence.Records, *r)
	s.out.Line(line{Record: r})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visits = max(s.visits, r.Visit)
	s.attempts++
	s.outcomes[r.Outcome]++
	if (r.Outcome == Done || r.Outcome == Refused) && r.SentAt.After(s.last) {
		s.last = r.SentAt
	}
}

func (s *Shopping) tell(phase string, last bool) {
	_ = s.out.Flush() // an error is kept and returned at the end
	if s.Progress == nil {
		return
	}
	s.mu.Lock()
	p := Progress{
		Visits: s.visits, Total: s.sale.plan.Visits, Requests: s.attempts, Outcomes: s.outcomes,
		Elapsed: s.sale.clock.Elapsed(), Phase: phrases.Say("phase." + phase), Last: last,
	}
	defer s.mu.Unlock()
	s.Progress(p)
}

// Judge settles requests with unknown outcomes, reads the books until they are at rest, and judges, even after ctx has
// ended. The error is that of the history, or that the books cannot be read; the Result is returned with it.
func (s *Shopping) Judge(ctx context.Context) (*Result, error) {
	r := s.result
	ctx = context.WithoutCancel(ctx)
	within, cancel := context.WithTimeout(ctx, s.sale.plan.SettleLimit)
	s.tell("settle", false)
	s.sale.settle(within, s.keep)
	cancel()

	look, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	s.tell("books", false)
	began := time.Now()
	unannounced, progress := math.MaxInt, began
	for {
		asked := time.Now()
		moved, err := s.read(look)
		waited := asked.Sub(began) > s.sale.plan.SettleLimit
		r.Evidence.Unread = words.Text{}
		switch {
		case err != nil:
			r.Evidence.Unread = words.Of(err)
		case moved != "" && waited:
			r.Evidence.Unread = say("unread.moving", "sku", moved, "limit", s.sale.plan.SettleLimit.String())
		}
		r.Verdict = Judge(&r.Evidence)
		since, limit := began, loadtest.LateLimit
		if n := r.Verdict.unannounced; n > 0 {
			if n < unannounced { // the relay makes progress
				unannounced, progress = n, asked
			}
			since, limit = progress, s.sale.plan.SettleLimit
		}
		// Sweepers and relays may still be at work. After a long run a reading takes seconds, so a reading that began
		// too early is not the last one. Movements during a reading look like faults, and so prove nothing.
		final := !r.Verdict.early || asked.Sub(since) > limit
		if moved != "" {
			final = waited
		}
		if err == nil && final || loadtest.Sleep(look, 250*time.Millisecond) != nil {
			break
		}
	}
	r.Books = r.Evidence.Books
	r.Figures = Measure(r)
	r.aftermath()
	r.writeEnd(s.out)
	s.tell("books", true)
	if err := s.out.Flush(); err != nil {
		return r, phrases.Error("history.not-written", "why", err)
	}
	return r, nil
}

// read reads the books of every SKU, the customers' orders and reservations, and then all counters again. moved is a
// SKU whose counters changed in between, so that its book may be of another moment. If moved is "", everything read is
// of one moment.
func (s *Shopping) read(ctx context.Context) (moved string, err error) {
	e := &s.result.Evidence
	e.Run, e.Limit, e.ReadAt = s.result.Run, s.sale.plan.limit(), s.sale.clock.Now()
	if s.feed == nil {
		e.Unheard = say("unheard.no-feed")
	}
	books := make([]Book, len(s.result.Books))
	customers, told := e.customers(), e.told()
	ordersOf := make([][]Thing, len(customers))
	reservations := make([]Thing, len(told))
	var jobs []func(*loadtest.Client) error
	for i := range books {
		jobs = append(jobs, func(c *loadtest.Client) (err error) {
			books[i], err = s.book(ctx, c, s.result.Books[i].Before)
			return err
		})
	}
	for i, customer := range customers {
		jobs = append(jobs, func(c *loadtest.Client) (err error) {
			ordersOf[i], err = ReadOrders(ctx, c, customer)
			return err
		})
	}
	for i, t := range told {
		jobs = append(jobs, func(c *loadtest.Client) (err error) {
			reservations[i], err = ReadReservation(ctx, c, t.Customer, t.ReservationID)
			return err
		})
	}
	if err := s.each(ctx, jobs); err != nil {
		return "", err
	}
	e.Books, e.Orders, e.Reservations = books, slices.Concat(ordersOf...), reservations
	numbers := make([]uint64, len(books))
	jobs = nil
	for i := range books {
		jobs = append(jobs, func(c *loadtest.Client) error {
			now, err := ReadCounts(ctx, c, books[i].Before.SKU)
			numbers[i] = now.Number
			return err
		})
	}
	if err := s.each(ctx, jobs); err != nil {
		return "", err
	}
	for i := range books {
		if numbers[i] != books[i].After.Number {
			moved = books[i].Before.SKU
		}
	}
	return moved, nil
}

// each runs the jobs, eight at a time, each on one shop after the other until one answers.
func (s *Shopping) each(ctx context.Context, jobs []func(*loadtest.Client) error) error {
	var all errgroup.Group
	all.SetLimit(8)
	for i, job := range jobs {
		all.Go(func() error {
			for try := 0; ; try++ {
				err := job(s.sale.shops[(i+try)%len(s.sale.shops)])
				if err == nil || try == 20 || loadtest.Sleep(ctx, 100*time.Millisecond) != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

// book reads the ledger of a SKU up to the number of its counters, and its events.
func (s *Shopping) book(ctx context.Context, c *loadtest.Client, before Counts) (b Book, err error) {
	b.Before = before
	if b.After, err = ReadCounts(ctx, c, before.SKU); err != nil {
		return b, err
	}
	b.Movements, err = ReadMovements(ctx, c, before.SKU, before.Number, b.After.Number)
	if err != nil || s.feed == nil {
		return b, err
	}
	b.Events, err = s.feed.Events(ctx, before.SKU, before.Number)
	return b, err
}

// customers returns the customers of the run.
func (e *Evidence) customers() (list []string) {
	seen := map[string]bool{"": true}
	for i := range e.Records {
		if c := e.Records[i].Customer; !seen[c] {
			seen[c] = true
			list = append(list, c)
		}
	}
	return list
}

// told returns the reservations named in replies.
func (e *Evidence) told() (list []Thing) {
	seen := make(map[string]bool)
	for i := range e.Records {
		r := &e.Records[i]
		if r.Op == OpReserve && r.Got != nil && !seen[r.Got.ReservationID] {
			seen[r.Got.ReservationID] = true
			list = append(list, Thing{Customer: r.Customer, ReservationID: r.Got.ReservationID})
		}
	}
	return list
}

// aftermath fills in what became of the requests after each command.
func (r *Result) aftermath() {
	loadtest.Aftermath(r.Ran, r.Evidence.Records, func(rec *Record) loadtest.Sent {
		return loadtest.Sent{
			At: rec.SentAt, Done: rec.DoneAt, Outcome: string(rec.Outcome), Sale: rec.Outcome == Done,
		}
	})
}

package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/stack"
)

// patience is how long a scenario waits for what must come. It is a bound against hanging, and decides no verdict.
const patience = 60 * time.Second

// A Bench is what a scenario works with: one case, a SKU that nobody else has, instances, servers, faults, and a notebook.
//
// Its methods do not return errors: what goes wrong with the bench itself stops the scenario, as t.Fatal stops a test, and the cell has
// no verdict then. So they must be called from the goroutine that runs the scenario.
type Bench struct {
	Ctx      context.Context
	Case     Case
	Promise  Promise  // of the Case's strategy
	Strategy Strategy // the zero value for code of the lab
	SKU      string

	stand *stand
	mine  *stand // if this case has one for itself
	o     stack.Options
	owned sync.WaitGroup
	end   context.CancelCauseFunc

	apps    []*App  // that were asked for
	calls   []*Call // in the order of Begin
	initial int64
	epoch   uint64
	redis   *redis.Client
	closers []func() // last first

	mu       sync.Mutex
	evidence []Evidence
	events   []Event
}

// A failure stops a scenario.
type failure struct{ err error }

// Fatalf stops the scenario, without a verdict.
func (b *Bench) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Must stops the scenario if err is not nil.
func (b *Bench) Must(doing string, err error) {
	if err != nil {
		b.Fatalf("%s: %w", doing, err)
	}
}

// must stops the scenario if something is not as the scenario takes for granted.
func (b *Bench) must(so bool, what string) {
	if !so {
		b.Fatalf("it is not so: %s", what)
	}
}

// Store is where the stock of this case is.
func (b *Bench) Store() string {
	if b.Case.Store != "" {
		return b.Case.Store
	}
	return b.Strategy.DefaultStore
}

// Apps are n instances, with env (KEY=value) on top of what all have. Those of an earlier case with the same env are used again, and the
// first so many are the same each time within a case.
func (b *Bench) Apps(n int, env ...string) []*App {
	list, err := b.stand.apps(b.Ctx, n, env...)
	b.Must("start instances", err)
	for _, app := range list {
		if !slices.Contains(b.apps, app) {
			b.apps = append(b.apps, app)
		}
	}
	return list
}

// Fresh gives this case servers for itself, which it may damage as it likes: they are gone with it. Call it first.
func (b *Bench) Fresh(o stack.Options, needs ...Need) *stack.Stack {
	o.Binary = b.o.Binary
	mine, err := openStand(b.Ctx, o, needs)
	b.Must("start servers of its own", err)
	b.stand, b.mine = mine, mine
	return mine.stack
}

// Server is the first server of that need.
func (b *Bench) Server(need Need) *stack.Server {
	server := b.stand.stack.Server(string(need))
	if server == nil {
		b.Fatalf("%s was not started: is it among the Needs?", need)
	}
	return server
}

// Defer has f called when the case has ended, however it ends; the last first.
func (b *Bench) Defer(f func()) { b.closers = append(b.closers, f) }

// Go runs f until it returns, which it must when ctx ends. Nothing in it may call what stops the scenario.
func (b *Bench) Go(f func(ctx context.Context)) { b.owned.Go(func() { f(b.Ctx) }) }

// Eventually waits until so is true, and stops the scenario if that does not come about. It is for what must come, never for what
// must not.
func (b *Bench) Eventually(what string, so func() bool) {
	for began := time.Now(); !so(); {
		if time.Since(began) > patience {
			b.Fatalf("not within %v: %s", patience, what)
		}
		b.pause(what)
	}
}

// pause is between two looks.
func (b *Bench) pause(what string) {
	select {
	case <-b.Ctx.Done():
		b.Fatalf("until %s: %w", what, context.Cause(b.Ctx))
	case <-time.After(5 * time.Millisecond):
	}
}

// Evidence writes down a fact, in both languages. value may be nil.
func (b *Bench) Evidence(kind Proof, value any, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evidence = append(b.evidence, Evidence{Kind: kind, Text: fmt.Sprintf(format, args...), ZH: chinese(format, args), Value: value})
}

// Note writes down what was done or seen just now, in a lane and in both languages.
func (b *Bench) Note(lane, format string, args ...any) {
	b.event(Event{At: time.Now(), Lane: lane, Kind: Note}, format, args...)
}

// Interval writes down what lasted from from until now.
func (b *Bench) Interval(lane string, kind Kind, who string, from time.Time, format string, args ...any) {
	b.event(Event{At: from, Until: time.Now(), Lane: lane, Kind: kind, Who: who}, format, args...)
}

// event writes down e, said in both languages.
func (b *Bench) event(e Event, format string, args ...any) {
	e.Text, e.ZH = fmt.Sprintf(format, args...), chinese(format, args)
	e.At = e.At.UTC()
	if !e.Until.IsZero() {
		e.Until = e.Until.UTC()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// cleanup ends what the case has left, so that the next finds everything in order.
func (b *Bench) cleanup() (failed string) {
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
	b.end(errors.New("the case has ended"))
	b.owned.Wait()
	if b.mine != nil {
		if err := b.mine.close(); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return strings.Join(wrong, "; ")
}

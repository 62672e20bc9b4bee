package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/stack"
)

// A failure is one row of the matrix. Its texts are in the folder text, by its name.
type failure struct {
	Name  string
	Quick bool // in the short form

	// What is started.
	Needs     []stack.Kind
	Forgets   bool // Redis keeps nothing over a restart
	More      map[stack.Kind][]string
	Instances int                   // 0: one
	Env       func(b *bed) []string // of the instances; may be nil
	Own       func(b *bed) []string // of the first instance instead; may be nil
	Prepare   func(b *bed)          // before Prometheus starts; may be nil
	Customers func(b *bed)          // after its first evaluations; nil: nobody buys
	Factor    int                   // by which the times of the rules are divided; 0: usual

	Make func(b *bed)
	Mend func(b *bed) // may be nil; what a person does, also the commands of the runbook: see bed.does

	Fires    []string // exactly these alerts, the one whose runbook is played first
	Also     string   // a further page that is played, which no alert names; "": none
	Most     int      // evaluations in which they must fire, and a fifth of those in which they must end; 0: ceiling
	Follows  []string // and these after the mend, because of it
	Confirms string   // in the output of the commands that confirm the alert
	Fails    string   // begins those that must fail, which is the confirmation; "": none
	// NotHere begins the command of the runbook that does not apply to this row. The text has the reason.
	NotHere string
}

// usual is the factor of most failures: an hour takes a minute.
const usual = 60

// Ceilings, in evaluations of the rules. What does not happen within them does not happen.
const (
	ceiling = 240
	// hold is how long a failure lasts at least, in the time of the rules: longer than every "for" with its window, so
	// that an alert that must not fire had the time to do so.
	hold = 13 * time.Minute
	// calm is the number of evaluations before a failure and after its end in which nothing may fire.
	calm = 8
)

// A result is what a run has shown.
type result struct {
	Name     string   `json:"name"`  // the texts are in the folder text
	Fires    []string `json:"fires"` // all that fired, in the order of the alphabet
	Resolves bool     `json:"resolves"`
	Runbooks []string `json:"runbooks,omitempty"` // their commands were typed, and it was over

	factor, fired, resolved int // in evaluations
}

// run makes a failure and mends it.
func (f *failure) run(ctx context.Context, program, rules string, factor int, tell func(string, ...any)) (r result,
	late bool, err error,
) {
	r.Name, r.factor = f.Name, factor
	var b *bed
	defer func() {
		problem := recover()
		stopped, ok := problem.(stop)
		if problem != nil && !ok {
			panic(problem)
		}
		if ok {
			err = stopped.error
		}
		if b != nil {
			late = b.late(ctx)
			if _, seen := b.alerts(); ok && len(seen) > 0 {
				err = fmt.Errorf("%w (fired so far: %s)", err, names(seen))
			}
			b.close()
		}
	}()
	b = open(ctx, program, rules, f, factor)
	b.await("every instance is scraped", ceiling, func() bool {
		up, err := b.query(b.ctx, `sum(up{job="stock"}) == `+fmt.Sprint(len(b.apps)))
		firing, _ := b.alerts()
		return err == nil && len(up) == 1 && len(firing) == 0
	})
	b.forget()
	if f.Customers != nil {
		f.Customers(b)
	}
	b.pass(calm)
	if _, seen := b.alerts(); len(seen) > 0 {
		b.fatalf("an alert fires before the failure")
	}

	from := b.evaluations()
	f.Make(b)
	most := cmp.Or(f.Most, ceiling)
	r.fired = b.await("fires "+strings.Join(f.Fires, ", "), most, func() bool { return b.fired(f.Fires) })
	_, seen := b.alerts()
	tell("%s: %s after %d evaluations", f.Name, names(seen), r.fired)
	if len(f.Fires) > 0 {
		r.Runbooks = []string{book(seen[f.Fires[0]])}
	}
	if f.Also != "" {
		r.Runbooks = append(r.Runbooks, f.Also)
	}
	if len(r.Runbooks) > 0 {
		b.book = b.read(r.Runbooks)
		b.confirm()
	}
	if lasts := int(hold/time.Duration(factor)/b.interval) - (b.evaluations() - from); lasts > 0 {
		b.pass(lasts)
	}
	_, seen = b.alerts()
	for name := range seen {
		if !slices.Contains(f.Fires, name) {
			b.fatalf("more fires than %s", strings.Join(f.Fires, ", "))
		}
	}
	if f.Mend != nil {
		f.Mend(b)
	}
	if b.book != nil {
		b.over()
	}
	r.resolved = b.await("everything is over", 5*most, func() bool {
		firing, _ := b.alerts()
		return len(firing) == 0 && b.fired(f.Follows)
	})
	b.pass(calm)
	var firing map[string]notice
	firing, seen = b.alerts()
	r.Fires, r.Resolves = slices.AppendSeq([]string{}, maps.Keys(seen)), len(firing) == 0
	slices.Sort(r.Fires)
	want := slices.Sorted(slices.Values(slices.Concat(f.Fires, f.Follows)))
	if !slices.Equal(r.Fires, want) || !r.Resolves {
		b.fatalf("want %s, still firing: %s", strings.Join(want, ", "), names(firing))
	}
	return r, false, nil
}

// fired reports whether each of the alerts has fired.
func (b *bed) fired(alerts []string) bool {
	_, seen := b.alerts()
	for _, name := range alerts {
		if _, ok := seen[name]; !ok {
			return false
		}
	}
	return true
}

// pass lets Prometheus evaluate the rules n times.
func (b *bed) pass(n int) {
	from := b.evaluations()
	b.await(fmt.Sprintf("%d evaluations", n), n+ceiling, func() bool { return b.evaluations()-from >= n })
}

// book returns the name of the runbook that an alert names.
func book(n notice) string {
	name := strings.TrimPrefix(n.Annotations["runbook"], "docs/runbooks/")
	return strings.TrimSuffix(name, ".md")
}

func names(alerts map[string]notice) string {
	if len(alerts) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Sorted(maps.Keys(alerts)), ", ")
}

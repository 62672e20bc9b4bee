package archive

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A scripted store answers as it is told.
type scripted struct {
	Store
	now     time.Time
	due     int
	created time.Time // of those
	takes   []error   // what TakeAway answers, one after the other; the last one from then on
	taken   int
}

func (s *scripted) Archived(context.Context) (order.Part, time.Time, error) {
	return order.Part{}, s.now, nil
}

func (s *scripted) Due(context.Context, int, int) ([]order.Reservation, error) {
	due := make([]order.Reservation, s.due)
	for i := range due {
		due[i].CreatedAt = s.created
	}
	return due, nil
}

func (s *scripted) TakeAway(ctx context.Context, _ order.Taking) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.taken++
	return s.takes[min(s.taken, len(s.takes))-1]
}

// Before may be MinAge ago, and not a microsecond later.
func TestHowYoungMayBeArchived(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for late, want := range map[time.Duration]bool{-time.Microsecond: false, 0: false, time.Microsecond: true} {
		a := newArchiver(&scripted{now: now}, Options{MinAge: time.Hour, Before: now.Add(late - time.Hour)})
		var young *YoungError
		err := a.begin(t.Context())
		if errors.As(err, &young) != want || want && !young.Latest.Equal(now.Add(-time.Hour)) {
			t.Errorf("%v after the latest: %v", late, err)
		}
	}
}

// A forgetful store tells only once what it has archived.
type forgetful struct {
	*scripted
	asked int
}

var errForgotten = errors.New("the store has gone")

func (f *forgetful) Archived(ctx context.Context) (order.Part, time.Time, error) {
	if f.asked++; f.asked > 1 {
		return order.Part{}, time.Time{}, errForgotten
	}
	return f.scripted.Archived(ctx)
}

// The last part is read again once the folder is locked. A run that cannot read it archives nothing.
func TestTheLastPartIsReadAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	s := &forgetful{scripted: &scripted{now: now}}
	if _, err := Run(t.Context(), s, Options{Before: now, Dir: t.TempDir()}); !errors.Is(err, errForgotten) {
		t.Errorf("%v, want %v", err, errForgotten)
	}
	if s.asked != 2 {
		t.Errorf("asked %d times", s.asked)
	}
}

// One reservation fewer than maxDue may be over.
func TestHowManyMayBeDue(t *testing.T) {
	for due, want := range map[int]error{0: nil, maxDue - 1: nil, maxDue: ErrDue} {
		s := &scripted{due: due, created: time.Now()}
		if err := newArchiver(s, Options{}).open(t.Context()); !errors.Is(err, want) {
			t.Errorf("%d are over: %v, want %v", due, err, want)
		}
	}
	if err := newArchiver(&scripted{due: 1}, Options{}).open(t.Context()); err == nil {
		t.Error("archives beside a reservation that cannot be read")
	}
}

// The movements of a SKU stay from the earliest reason on, if that is before Options.Before. So do the orders that
// ended then or later; each order is looked at once.
func TestWhatStays(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	a := newArchiver(nil, Options{Before: at(10)})
	a.ids = map[string]bool{}
	for _, row := range []struct {
		since int
		want  time.Time
	}{{11, time.Time{}}, {10, time.Time{}}, {9, at(9)}, {7, at(7)}, {8, at(7)}} {
		a.stays("a", at(row.since))
		if got := a.behind["a"]; got != row.want || a.done.Behind != len(a.behind) {
			t.Errorf("since %d: they stay from %v on, %d behind", row.since, got, a.done.Behind)
		}
	}
	lines := []order.Line{{SKU: "b", Quantity: 1}, {SKU: "a", Quantity: 1}}
	for _, row := range []struct {
		id    string
		lines []order.Line
		ended int
		want  bool
	}{
		{"before", lines, 6, true},
		{"before", lines, 6, false},
		{"then", lines, 7, false},
		{"later", lines, 8, false},
		{"elsewhere", lines[:1], 8, true},
	} {
		if got := a.goes(row.id, row.lines, at(row.ended)); got != row.want {
			t.Errorf("%s goes: %t", row.id, got)
		}
	}
	if a.done.Kept != 2 {
		t.Errorf("%d are kept, want 2", a.done.Kept)
	}
}

// A part says from when on nothing is archived by it or by those before it.
func TestBeforeOfAPart(t *testing.T) {
	for last, want := range map[int]int{1: 2, 2: 2, 3: 3} {
		a := newArchiver(nil, Options{Before: time.Unix(2, 0)})
		a.done.Last.Before = time.Unix(int64(last), 0).UTC()
		if got := a.before().Unix(); got != int64(want) {
			t.Errorf("after a part with %d: %d, want %d", last, got, want)
		}
	}
}

// A step that fails is tried again, with pauses that double; one that was refused is not. What a later try says of one
// whose outcome is unknown does not make it known.
func TestTriesOfAStep(t *testing.T) {
	fails, unknown := errors.New("the store says so"), service.ErrOutcomeUnknown
	for name, row := range map[string]struct {
		answers []error
		taken   int
		lasts   time.Duration
		unknown bool
		want    error
	}{
		"done":                 {[]error{nil}, 1, 0, false, nil},
		"moved":                {[]error{order.ErrMoved}, 1, 0, false, order.ErrMoved},
		"taken":                {[]error{order.ErrTaken}, 1, 0, false, order.ErrTaken},
		"fails":                {[]error{fails}, tries, 15 * time.Second, false, fails},
		"fails twice":          {[]error{fails, fails, nil}, 3, 3 * time.Second, false, nil},
		"unknown, then done":   {[]error{unknown, nil}, 2, time.Second, true, nil},
		"unknown, then moved":  {[]error{unknown, order.ErrMoved}, 2, time.Second, true, order.ErrMoved},
		"unknown, then fails":  {[]error{unknown, fails}, tries, 15 * time.Second, true, fails},
		"fails, then is taken": {[]error{fails, order.ErrTaken}, 2, time.Second, false, order.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := &scripted{takes: row.answers}, time.Now()
				is, err := newArchiver(s, Options{}).take(t.Context(), Contents{})
				if !errors.Is(err, row.want) || is != row.unknown || s.taken != row.taken ||
					time.Since(began) != row.lasts {
					t.Errorf("%v, unknown %t, after %d tries in %v", err, is, s.taken, time.Since(began))
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &scripted{takes: []error{fails}}
	if _, err := newArchiver(s, Options{}).take(ctx, Contents{}); s.taken != 1 || !errors.Is(err, fails) {
		t.Errorf("after the end of ctx: %d tries, %v; want one, and its error", s.taken, err)
	}
}

// That a record is not there is no error, and it is no other record. An error of the store is one.
func TestSameRecords(t *testing.T) {
	fails := errors.New("the store says so")
	for _, row := range []struct {
		is, was   string
		err, left error
		same      bool
	}{
		{"a", "a", nil, nil, true},
		{"a", "b", nil, nil, false},
		{"a", "a", order.ErrNotFound, nil, false},
		{"a", "a", fails, fails, false},
	} {
		err := row.err
		if got := same(row.is, row.was, &err); got != row.same || err != row.left {
			t.Errorf("%+v: %t, %v", row, got, err)
		}
	}
}

// A part that has movements which no SKU carries on is reported, as are parts that are missing and parts that do not
// follow. One that was read counts once.
func TestPartsFollowEachOther(t *testing.T) {
	part := func(number uint64, digest, previous string) Contents {
		c := Contents{}
		c.Part = order.Part{Number: number, Digest: digest, Previous: previous}
		c.Part.Movements, c.Part.Orders, c.Part.Reservations = 1, 2, 3
		return c
	}
	v := newVerifier()
	v.digests = map[uint64]string{}
	odd := part(1, "one", "")
	odd.Movements = []order.Movement{{SKU: "a", Number: 4}, {SKU: "a", Number: 5}}
	v.add(odd)
	v.add(odd)
	v.add(part(2, "two", "another"))
	v.add(part(2, "two", "one"))
	v.add(part(5, "five", "four"))
	want := []Problem{
		{Kind: Sequence, Part: 1, SKU: "a", Number: 4},
		{Kind: Broken, Part: 2},
		{Kind: Missing, Part: 3},
		{Kind: Missing, Part: 4},
	}
	if !slices.Equal(v.Problems, want) {
		t.Errorf("%+v", v.Problems)
	}
	if v.Parts != 3 || v.Movements != 3 || v.Orders != 6 || v.Reservations != 9 {
		t.Errorf("%d parts, %d movements, %d orders, %d reservations", v.Parts, v.Movements, v.Orders, v.Reservations)
	}
}

// No more problems are listed than maxProblems.
func TestProblemsAreBounded(t *testing.T) {
	v := newVerifier()
	v.digests = map[uint64]string{}
	v.add(Contents{Taking: order.Taking{Part: order.Part{Number: 1 << 40, Digest: "far"}}})
	if len(v.Problems) != maxProblems || v.Problems[maxProblems-1].Part != maxProblems {
		t.Errorf("%d problems", len(v.Problems))
	}
}

// What was collected is not archived after ctx has ended, and the run says so.
func TestTheEndOfARun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &scripted{takes: []error{nil}}
	a := newArchiver(s, Options{})
	a.part.Movements = []order.Movement{{SKU: "a", Number: 1}}
	if err := a.flush(ctx); !errors.Is(err, context.Canceled) || s.taken != 0 {
		t.Errorf("%v, %d parts were taken away", err, s.taken)
	}
}

// The ids of many orders are asked for in pages, and what the store has of them is reported.
func TestManyIDsAreLookedFor(t *testing.T) {
	for _, n := range []int{0, 1, page - 1, page, page + 1, 2*page + 1} {
		v, s := newVerifier(), &lists{}
		for i := range n {
			v.ids[string(rune('a'+i))] = true
		}
		if err := v.compare(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if len(v.Problems) != min(n, maxProblems) || s.asked != n || s.most > page ||
			s.requests != (n+page-1)/page {
			t.Errorf("%d ids: %d problems, %d asked for, %d at once, in %d requests", n, len(v.Problems), s.asked,
				s.most, s.requests)
		}
	}
}

// lists is a store that has all that it is asked for.
type lists struct {
	Store
	asked, most, requests int
}

func (l *lists) Archived(context.Context) (order.Part, time.Time, error) {
	return order.Part{}, time.Time{}, nil
}

func (l *lists) Present(_ context.Context, ids []string) ([]string, error) {
	l.asked, l.most, l.requests = l.asked+len(ids), max(l.most, len(ids)), l.requests+1
	return slices.Clone(ids), nil
}

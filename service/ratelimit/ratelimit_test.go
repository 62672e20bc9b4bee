package ratelimit_test

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"example.com/stock/service/ratelimit"
)

var policy = ratelimit.Policy{Every: 100 * time.Millisecond, Burst: 3}

func TestDecisions(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := ratelimit.NewMemory()
		for i, row := range []struct {
			pause time.Duration
			want  ratelimit.Decision
		}{
			{0, ratelimit.Decision{OK: true, Left: 2, Full: 100 * ms}},
			{0, ratelimit.Decision{OK: true, Left: 1, Full: 200 * ms}},
			{0, ratelimit.Decision{OK: true, Retry: 100 * ms, Full: 300 * ms}},
			{0, ratelimit.Decision{Retry: 100 * ms, Full: 300 * ms}},
			{99 * ms, ratelimit.Decision{Retry: ms, Full: 201 * ms}}, // the refused one has cost nothing
			{ms, ratelimit.Decision{OK: true, Retry: 100 * ms, Full: 300 * ms}},
			{250 * ms, ratelimit.Decision{OK: true, Left: 1, Full: 150 * ms}},
			{time.Hour, ratelimit.Decision{OK: true, Left: 2, Full: 100 * ms}}, // no more than a burst is saved
		} {
			time.Sleep(row.pause)
			if got := m.Take(t.Context(), "a", policy)[0]; got != row.want {
				t.Errorf("request %d: %+v, want %+v", i, got, row.want)
			}
		}
		if got := m.Take(t.Context(), "b", policy)[0]; !got.OK || got.Left != 2 {
			t.Errorf("another customer: %+v", got)
		}
	})
}

// In no stretch of time are more admitted than a burst and one for each Every, and who waits for Retry is admitted.
func TestRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p := ratelimit.Policy{
			Every: time.Duration(rapid.IntRange(1, 50).Draw(r, "every")), Burst: rapid.IntRange(1, 5).Draw(r, "burst"),
		}
		pauses := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 60).Draw(r, "pauses")
		synctest.Test(t, func(*testing.T) {
			m := ratelimit.NewMemory()
			var admitted []time.Time
			for _, pause := range pauses {
				time.Sleep(time.Duration(pause))
				d := m.Take(t.Context(), "a", p)[0]
				if !d.OK {
					if d.Left != 0 || d.Retry <= 0 {
						r.Fatalf("refused with %+v", d)
					}
					time.Sleep(d.Retry)
					if d = m.Take(t.Context(), "a", p)[0]; !d.OK {
						r.Fatalf("refused after Retry: %+v", d)
					}
				}
				admitted = append(admitted, time.Now())
			}
			for i := range admitted {
				for j := i; j < len(admitted); j++ {
					most := p.Burst + int(admitted[j].Sub(admitted[i])/p.Every)
					if n := j - i + 1; n > most {
						r.Fatalf("%d admitted within %v, want at most %d", n, admitted[j].Sub(admitted[i]), most)
					}
				}
			}
		})
	})
}

// A customer who has not asked for a while takes no memory.
func TestMemoryShrinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := ratelimit.NewMemory()
		for i := range 100_000 {
			m.Take(t.Context(), strconv.Itoa(i), policy)
			time.Sleep(time.Millisecond)
		}
		if n := m.Len(); n > 2048 {
			t.Errorf("%d customers are kept, of whom 100 asked within the last 100 ms", n)
		}
	})
}

// A request that one policy refuses counts for none.
func TestAllPoliciesAdmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := ratelimit.Policy{Name: "keys", Every: time.Hour, Burst: 1}
		m := ratelimit.NewMemory()
		for i, want := range [][]ratelimit.Decision{
			{{OK: true, Left: 2, Full: policy.Every}, {OK: true, Retry: time.Hour, Full: time.Hour}},
			{{OK: true, Left: 2, Full: policy.Every}, {Retry: time.Hour, Full: time.Hour}},
		} {
			if got := m.Take(t.Context(), "a", policy, keys); !slices.Equal(got, want) {
				t.Errorf("request %d: %+v, want %+v", i, got, want)
			}
		}
	})
}

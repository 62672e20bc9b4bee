package relay

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestThePausesOfAHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{}).c
		for _, way := range []struct {
			name string
			err  error
			most time.Duration
		}{
			{"refused", errors.New("no"), c.MaxBackoff},
			{"away", ErrUnavailable, maxAway},
		} {
			var h stuckEvent
			total := time.Duration(0)
			for i := range 100 {
				h.fail(way.err, c)
				want := way.most
				if i < 10 {
					want = min(c.Backoff<<i, way.most)
				}
				pause := time.Until(h.next)
				if pause < want/2 || pause > want {
					t.Errorf("%s, attempt %d: pause %v, want %v to %v", way.name, i+1, pause, want/2, want)
				}
				total += pause
				time.Sleep(pause)
				if i+1 == c.Attempts && way.most == c.MaxBackoff && (total < 30*time.Minute || total > 2*time.Hour) {
					t.Errorf("an event is parked after %v, want about an hour", total)
				}
			}
			if refused := h.refusals == 100; refused != (way.most == c.MaxBackoff) || h.attempts != 100 {
				t.Errorf("%s: %d refusals of %d", way.name, h.refusals, h.attempts)
			}
		}
		var h stuckEvent
		h.fail(&LaterError{After: time.Minute, Err: errors.New("busy")}, c)
		if pause := time.Until(h.next); pause != time.Minute || h.refusals != 0 {
			t.Errorf("Retry-After of a minute: %v, %d refusals", pause, h.refusals)
		}
		h.fail(&LaterError{After: 1000 * time.Hour, Err: errors.New("busy")}, c)
		if pause := time.Until(h.next); pause != maxLater {
			t.Errorf("Retry-After of weeks: %v", pause)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-1": 0, "0": 0, "120": 2 * time.Minute, "99999999999999999999": 0,
		now.Add(time.Hour).Format(http.TimeFormat): time.Hour, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		h := http.Header{}
		h.Set("Retry-After", text)
		if got := retryAfter(h, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		// The clock of the receiver says the same in its reply, whatever ours is.
		h.Set("Date", now.Format(http.TimeFormat))
		if got := retryAfter(h, now.Add(-2*time.Hour)); got != want {
			t.Errorf("%q, by the receiver's clock: %v, want %v", text, got, want)
		}
	}
}

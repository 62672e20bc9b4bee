package lab

import (
	"testing"
	"time"
)

// Of what MONITOR prints only a SET of the key tells who asks.
func TestSetting(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ line, want string }{
		{`1795.1 [0 127.0.0.1:1] "set" "redlock:{k}" "uuid k.A@app-1" "px" "60000" "nx"`, "uuid k.A@app-1"},
		{`1795.1 [0 127.0.0.1:1] "SET" "redlock:{k}" "a \"quoted\" one" "nx"`, `a "quoted" one`},
		{`1795.1 [0 127.0.0.1:1] "set" "redlock:{other}" "uuid k.A@app-1"`, ""},
		{`1795.1 [0 127.0.0.1:1] "get" "redlock:{k}"`, ""},
		{`1795.1 [0 lua] "DEL" "redlock:{k}"`, ""},
		{`+OK`, ""},
		{`"set" "redlock:{k}"`, ""},
	} {
		if got := setting(row.line, "redlock:{k}"); got != row.want {
			t.Errorf("%s: %q, want %q", row.line, got, row.want)
		}
	}
}

// Of many tries the first is drawn and the one that won; what was noted after its effect comes before it.
func TestDrawKeys(t *testing.T) {
	t.Parallel()
	at := time.Now().Truncate(time.Microsecond)
	after := func(ms int) time.Time { return at.Add(time.Duration(ms) * time.Millisecond) }
	b := &Testbed{SKU: "lab-x", told: map[string][]step{
		"lab-x.A": {{Kind: "acquired", AtUS: after(50).UnixMicro()}},
	}}
	for _, x := range []struct {
		ms      int
		granted bool
	}{{1, false}, {20, false}, {30, false}, {51, true}, {80, false}} {
		b.answers = append(b.answers, keyAnswer{"node 1", "A", "app-1", after(x.ms - 10), after(x.ms), x.granted})
	}
	b.holds = []keyHold{{
		keyAnswer: keyAnswer{"node 1", "A", "app-1", after(41), after(51), true}, until: after(70),
		lease: []TTL{{after(51), 100}},
	}}
	b.drawKeys()
	if len(b.events) != 3 {
		t.Fatalf("%d events, want the first answer, the one that won, and the hold: %+v", len(b.events), b.events)
	}
	if e := b.events[0]; e.Kind != Refused || e.To != "node 1" || !e.At.Equal(after(1)) {
		t.Errorf("the first answer is %+v", e)
	}
	for _, e := range b.events[1:] {
		if !e.At.Before(after(50)) || !e.At.After(after(49)) {
			t.Errorf("%s is %v after the start, want just before the lock was had, at 50 ms", e.Kind, e.At.Sub(at))
		}
	}
}

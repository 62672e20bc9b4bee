package soak

import (
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// at is a moment, in seconds.
func at(seconds float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// The time without sales is between two acknowledged sales, also if one of them is outside of the fault.
func TestDuring(t *testing.T) {
	t.Parallel()
	sold := func(sent, done float64) attempt { return attempt{sent: at(sent), done: at(done), sold: true} }
	list := []attempt{
		sold(19, 19.1), sold(1, 2), sold(9, 14), // in no order
		{sent: at(11), done: at(12), failed: true, problem: "backend_down"},
		{sent: at(12), done: at(13), unknown: true},
		{sent: at(5), done: at(11), failed: true}, // before the fault
	}
	lost := sold(10, 10.5)
	lost.lost = true
	list = append(list, lost)
	for _, row := range []struct {
		from, to float64
		want     Gap
	}{
		{10, 15, Gap{LongestMS: 8500, Requests: 3, Failed: 1, Unknown: 1, Lost: 1}},
		{14.5, 15, Gap{LongestMS: 5100}},
		{3, 4, Gap{LongestMS: 8500}},
		{30, 40, Gap{}},
	} {
		got := during(list, at(row.from), at(row.to))
		if n := got.Problems["backend_down"]; n != row.want.Failed {
			t.Errorf("from %v to %v: %d backend_down, want %d", row.from, row.to, n, row.want.Failed)
		}
		if got.Problems = nil; got.LongestMS != row.want.LongestMS || got.Requests != row.want.Requests ||
			got.Failed != row.want.Failed || got.Unknown != row.want.Unknown || got.Lost != row.want.Lost {
			t.Errorf("from %v to %v: %+v, want %+v", row.from, row.to, got, row.want)
		}
	}
}

// Only a fail-over of Redis excuses a lost sale, and only of the stock in Redis.
func TestWhatIsExcused(t *testing.T) {
	t.Parallel()
	fault := func(server string) Outage { return Outage{Server: server, began: at(10), ended: at(20)} }
	for _, row := range []struct {
		name, store string
		fault       Outage
		done        float64
		duplicates  int
		excused     bool
	}{
		{"in a fail-over", "redis", fault(redis), 15, 0, true},
		{"a moment before", "redis", fault(redis), 9, 0, true},
		{"after it", "redis", fault(redis), 21, 0, false},
		{"while ZooKeeper failed", "redis", fault(zookeeper), 15, 0, false},
		{"in MySQL", "mysql", fault(redis), 15, 0, false},
		{"and another was sold twice", "redis", fault(redis), 15, 1, false},
	} {
		l := newLane("atomic", row.store, nil)
		verdict := &loadtest.Verdict{
			Finding: loadtest.Broken, Accepted: 2, Phantoms: 1, LostUnits: 1, Duplicates: row.duplicates,
			Reasons: []loadtest.Reason{{About: loadtest.AboutReplies}},
		}
		r := &failOver{report: &FailOverReport{Faults: []Outage{row.fault}}}
		list := []attempt{
			{sent: at(row.done), done: at(row.done), sold: true, lost: true}, {sent: at(15), done: at(15), sold: true},
		}
		r.report.Lanes = []Sold{r.laneOf(l, verdict, list)}
		if got := len(r.report.Violations()) == 0; got != row.excused || r.report.Lanes[0].Lost != 1 {
			t.Errorf("%s: excused %t, want %t; lost %d", row.name, got, row.excused, r.report.Lanes[0].Lost)
		}
	}
}

// A request that fails while the instances restart is a violation, and while a server fails it is none.
func TestNoRequestFailsInARestart(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		server string
		gap    Gap
		want   int
	}{
		{instances, Gap{Failed: 1}, 1},
		{instances, Gap{Unknown: 1}, 0}, // reset with the listener
		{instances, Gap{Unknown: 2}, 1},
		{mariadb, Gap{Failed: 1}, 0},
	} {
		r := &FailOverReport{
			Lanes: []Sold{{Name: "a"}}, Faults: []Outage{{Server: row.server, Gaps: []Gap{row.gap}}},
		}
		if got := len(r.Violations()); got != row.want {
			t.Errorf("%s, %+v: %d violations, want %d", row.server, row.gap, got, row.want)
		}
	}
}

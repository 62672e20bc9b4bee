package report_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// held returns a run on a store, with the load of lossy(40), that lost nothing and took so many milliseconds.
func held(name, store string, p loadtest.Promise, ms float64) *loadtest.Result {
	r := ran(name, p.Scope, p.Exclusive, stay{worker: 1, asked: 0, from: 1, to: 2, version: 1},
		stay{worker: 2, asked: 0.5, from: ms - 1, to: ms, version: 2})
	r.Plan.Store, r.Plan.Requests, r.Strategy.Promise = store, 40, p
	return r
}

// raceOf returns the part of a page that shows the race.
func raceOf(t *testing.T, runs ...*loadtest.Result) (section, page string) {
	t.Helper()
	var b bytes.Buffer
	p := report.Page{Commit: "0123456789abcdef", Groups: []report.Group{{Runs: runs}}}
	if err := report.WriteHTML(&b, p); err != nil {
		t.Fatal(err)
	}
	page = b.String()
	_, section, _ = strings.Cut(page, `<section class="race">`)
	section, _, _ = strings.Cut(section, "</section>")
	return section, page
}

// Beside the race stands the strongest strategy on the same store and with the same load, whichever held first, and on
// the same axes.
func TestTheCureIsTheStrongest(t *testing.T) {
	const cluster = loadtest.Cluster
	expire := held("redis-setnx-expire", "redis", loadtest.Promise{Scope: cluster, Exclusive: true}, 20)
	setnx := held("redis-setnx", "redis", loadtest.Promise{Scope: cluster, Exclusive: true, Fenced: true}, 30)
	atomic := held("atomic", "redis", loadtest.Promise{Scope: cluster, Fenced: true, Blocking: true}, 5)
	watchdog := held("redis-watchdog", "redis", loadtest.Promise{
		Scope: cluster, Exclusive: true, Fenced: true, Fair: true, Blocking: true,
	}, 90)
	zk := held("zk-sequential", "mysql", watchdog.Strategy.Promise, 40)
	mutex := held("local-mutex", "redis", loadtest.Promise{Scope: loadtest.Process, Exclusive: true, Fair: true}, 10)
	alone := held("redis-watchdog", "redis", watchdog.Strategy.Promise, 90)
	alone.Plan.Concurrency = 1
	for _, row := range []struct {
		runs []*loadtest.Result
		want string
	}{
		{[]*loadtest.Result{expire, zk, setnx, watchdog, atomic}, "redis-watchdog on redis"},
		{[]*loadtest.Result{watchdog, atomic, setnx, zk, expire}, "redis-watchdog on redis"},
		{[]*loadtest.Result{atomic, expire, setnx, alone}, "redis-setnx on redis"},
		{[]*loadtest.Result{expire, atomic}, "atomic on redis"},
		{[]*loadtest.Result{mutex, expire}, "redis-setnx-expire on redis"},
		{[]*loadtest.Result{mutex, zk}, ""},
	} {
		section, _ := raceOf(t, append([]*loadtest.Result{lossy(40)}, row.runs...)...)
		titles := regexp.MustCompile(`<h3><a[^>]*>([^<]*)</a>`).FindAllStringSubmatch(section, -1)
		var names []string
		for _, m := range titles {
			names = append(names, m[1])
		}
		want := []string{"none on redis"}
		if row.want != "" {
			want = append(want, row.want)
		}
		if !slices.Equal(names, want) {
			t.Errorf("beside each other: %q, want %q", names, want)
		}
	}
	section, _ := raceOf(t, lossy(40), expire, watchdog)
	charts := strings.Split(section, `<div class="plot">`)[1:]
	if len(charts) != 2 {
		t.Fatalf("%d charts", len(charts))
	}
	labels := func(chart string) (list []string) {
		chart, _, _ = strings.Cut(chart, "</div>")
		for _, m := range regexp.MustCompile(`<text[^>]*>(-?[\d,.]+(?: ms)?)</text>`).FindAllStringSubmatch(chart, -1) {
			list = append(list, m[1])
		}
		return list
	}
	one, other := labels(charts[0]), labels(charts[1])
	if len(one) < 6 || !slices.Equal(one, other) || !slices.Contains(one, "80 ms") {
		t.Errorf("the axes are %q and %q", one, other)
	}
}

// What held without a promise is not called right.
func TestHeldWithoutAPromise(t *testing.T) {
	none := held("none", "redis", loadtest.Promise{Scope: loadtest.Nowhere}, 20)
	mutex := held("local-mutex", "redis", loadtest.Promise{Scope: loadtest.Process, Exclusive: true}, 20)
	expire := held("redis-setnx-expire", "redis", loadtest.Promise{Scope: loadtest.Cluster, Exclusive: true}, 20)
	atomic := held("atomic", "redis", loadtest.Promise{Scope: loadtest.Cluster, Fenced: true}, 20)
	_, page := raceOf(t, none, mutex, expire, atomic)
	cells := regexp.MustCompile(`scope="row">([a-z-]+) .*?<td class="t"><span class="(\w+)">([^<]+)</span>`).
		FindAllStringSubmatch(page, -1)
	var got []string
	for _, m := range cells {
		got = append(got, m[1]+": "+m[3]+" ("+m[2]+")")
	}
	want := []string{
		"none: Held here; not promised (odd)", "local-mutex: Held here; not promised (odd)",
		"redis-setnx-expire: Held here; unfenced (good)", "atomic: Holds (good)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	mustHave(t, page, "This strategy does not promise that: the next run may lose stock.",
		"A holder that is paused past its lease can still write",
		"Judged and written by stock, commit 0123456789abcdef.")
}

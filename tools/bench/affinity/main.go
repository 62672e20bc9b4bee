// Command affinity measures what SKU affinity of nginx changes: the merging strategies behind round robin and behind
// affinity, in turns, with one SKU and with a thousand, and what clients see when an instance is killed. After every
// measurement the books are balanced from the store. The tables are the part "affinity" of docs/scale.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/tools/bench/rig"
)

func main() {
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	if err := bench(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-affinity:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, args []string) (err error) {
	f := flag.NewFlagSet("bench-affinity", flag.ContinueOnError)
	rounds := f.Int("rounds", 5, "how often everything is measured; figures are medians")
	seconds := f.Int("seconds", 2, "how long each row is measured in each round, in whole seconds")
	write := f.Bool("write", false, "write the tables to docs/scale.md and docs/scale.zh-CN.md")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || *rounds < 1 || *seconds < 1 {
		return errors.New("want no arguments, and --rounds and --seconds of 1 or more")
	}
	root, err := rig.Root(ctx)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "bench-affinity-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "stock")
	if err := rig.Build(ctx, root, program); err != nil {
		return err
	}
	m := &measured{seconds: *seconds, folder: folder, version: rig.Version(ctx, root), rows: rows()}
	for i := range m.sides {
		m.sides[i], err = rig.Open(ctx, rig.Options{
			Name: []string{"round robin", "affinity"}[i], Binary: program, Instances: instances, Affinity: i == 1,
			Want: []stack.Kind{stack.Redis, stack.MySQL}, Tell: rig.Progress,
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.sides[i].Close()) }()
	}
	for n := range *rounds {
		for i := range m.rows {
			// The round begins with another row each time, and the sides change places.
			row := &m.rows[(i + n*len(m.rows) / *rounds)%len(m.rows)]
			for s := range m.sides {
				if err := m.sell(ctx, row, (s+n)%2, n); err != nil {
					return fmt.Errorf("%v: %w", row.what, err)
				}
			}
		}
	}
	for i := range m.killed {
		if err := m.kill(ctx, i); err != nil {
			return fmt.Errorf("kill an instance behind %s: %w", m.sides[i].Name, err)
		}
	}
	fmt.Print(m.table(ctx, 0))
	if !*write {
		return nil
	}
	for l, name := range []string{"scale.md", "scale.zh-CN.md"} {
		file := filepath.Join(root, "docs", name)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		made, err := rig.Fill(string(text), "affinity", m.table(ctx, l))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, []byte(made), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const (
	instances = 3
	stockOf   = 1_000_000_000 // in stock of each SKU: more than can be sold
)

// A row is one measurement, made on both sides in turns.
type row struct {
	what        what
	rates       [2][]float64 // sales a second; by side
	tails       [2][]float64 // p99, ms
	ratios, p99 []float64    // affinity / round robin, each from one round
}

type what struct {
	store       string
	connections int
	skus        int
}

func rows() (list []row) {
	for _, store := range []string{"mysql", "redis"} {
		for _, skus := range []int{1, 1000} {
			for _, connections := range []int{30, 128} {
				list = append(list, row{what: what{store, connections, skus}})
			}
		}
	}
	return list
}

type measured struct {
	seconds int
	folder  string
	version string
	sides   [2]*rig.Side // round robin, affinity
	rows    []row
	killed  [2]death
}

// A death is what clients saw of an instance that was killed and started again.
type death struct {
	requests, failed, unknown int64
	kept                      bool // the books balance
}

// sell measures a row on one side, in SKUs of its own.
func (m *measured) sell(ctx context.Context, r *row, i, round int) error {
	side, w := m.sides[i], r.what
	prefix := fmt.Sprintf("affinity-%d-%s-%d-%d-", round, w.store, w.connections, w.skus)
	sku := func(n int) string { return fmt.Sprintf("%s%d", prefix, n) }
	each := func(do func(sku string) error) error {
		return parallel(w.skus, func(n int) error { return do(sku(n)) })
	}
	if err := each(func(sku string) error {
		_, err := side.SetStock(ctx, w.store, sku, stockOf)
		return err
	}); err != nil {
		return err
	}
	script := fmt.Sprintf(`wrk.method = "POST"
function request()
  return wrk.format(nil, "/deduct_stock_merged?store=%s&sku=%s" .. math.random(0, %d))
end
`, w.store, prefix, w.skus-1)
	load, err := rig.Wrk(ctx, m.folder, side.URL, script, w.connections, m.seconds)
	if err != nil {
		return err
	}
	if load.Broken+load.Refused > 0 {
		return fmt.Errorf("%d of %d requests were refused, %d broke", load.Refused, load.Requests, load.Broken)
	}
	var mu sync.Mutex
	var sold int64
	if err := each(func(sku string) error {
		s, err := side.Balance(ctx, w.store, sku, 0, stockOf)
		mu.Lock()
		sold += s.Sold
		mu.Unlock()
		return err
	}); err != nil {
		return err
	}
	if cut := int64(w.connections); sold < load.OK() || sold > load.OK()+cut {
		return fmt.Errorf("%w: %d sold, %d answered with 200, %d cut off at most", rig.ErrBooks, sold, load.OK(), cut)
	}
	if w.store == "mysql" {
		err = side.Forget(ctx, w.store, "")
	} else {
		err = each(func(sku string) error { return side.Forget(ctx, w.store, sku) })
	}
	r.rates[i] = append(r.rates[i], float64(load.OK())/load.Seconds)
	r.tails[i] = append(r.tails[i], load.P99)
	if n := len(r.rates[i]); n == len(r.rates[1-i]) {
		r.ratios = append(r.ratios, r.rates[1][n-1]/r.rates[0][n-1])
		r.p99 = append(r.p99, r.tails[1][n-1]/r.tails[0][n-1])
	}
	rig.Progress("%-11s %s, %4d SKUs, %3d connections: %6.0f/s, p99 %.1f ms", side.Name, w.store, w.skus, w.connections,
		float64(load.OK())/load.Seconds, load.P99)
	return err
}

// parallel calls do for 0 to n-1, some at a time, and returns all errors.
func parallel(n int, do func(int) error) error {
	var all sync.WaitGroup
	failed := make([]error, min(n, 50))
	for w := range failed {
		all.Go(func() {
			for i := w; i < n; i += len(failed) {
				failed[w] = errors.Join(failed[w], do(i))
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// kill loads one SKU, kills the instance that sells most, and starts it again.
func (m *measured) kill(ctx context.Context, i int) error {
	side := m.sides[i]
	before, err := m.sales(ctx, side)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var failed error
	all.Go(func() {
		if failed = loadtest.Sleep(ctx, 2*time.Second); failed != nil {
			return
		}
		now, err := m.sales(ctx, side)
		if err != nil {
			failed = err
			return
		}
		most := 0
		for n := range now {
			if now[n]-before[n] > now[most]-before[most] {
				most = n
			}
		}
		victim := side.Instances()[most]
		failed = errors.Join(victim.Kill(), loadtest.Sleep(ctx, 2*time.Second), victim.Restart(ctx))
	})
	result, err := loadtest.Run(ctx, side.Client, loadtest.Plan{
		Strategy: "merged", Store: "mysql", SKU: "affinity-kill", Stock: stockOf, Concurrency: 30,
		Duration: 8 * time.Second, Seed: 1,
	}, nil)
	all.Wait()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	d := &m.killed[i]
	d.requests, d.kept = int64(len(result.Records)), result.Verdict.Kept
	for outcome, q := range result.Latency.ByOutcome {
		switch outcome {
		case loadtest.Accepted:
		case loadtest.Unknown:
			d.unknown += q.Count
		default:
			d.failed += q.Count
		}
	}
	rig.Progress("%-11s instance killed: %+v", side.Name, *d)
	return nil
}

// sales returns how many sales each instance has made.
func (m *measured) sales(ctx context.Context, side *rig.Side) ([]int64, error) {
	var list []int64
	for _, instance := range side.Instances() {
		n, err := side.OutcomesOf(ctx, "merged", instance)
		if err != nil {
			return nil, err
		}
		list = append(list, n["accepted"])
	}
	return list, nil
}

// table returns the part of the page, in English (0) or Chinese (1).
func (m *measured) table(ctx context.Context, l int) string {
	say := func(en, zh string) string { return []string{en, zh}[l] }
	var b strings.Builder
	fmt.Fprintf(&b, say("Measured %s on %s. %s. stock %s. %d instances, `merged`, %d rounds of %d s, in turns; ratios "+
		"are affinity / round robin, the median of those within a round, then the smallest and the largest.\n\n",
		"测于 %s，%s。%s。stock %s。%d 个实例，`merged`，%d 轮、每轮 %d 秒，轮流进行；比值为亲和 / 轮询，先是各轮内比值的中位数，再是最小与最大。\n\n"),
		time.Now().UTC().Format("2006-01-02 15:04 MST"), rig.Computer(), strings.Join(m.sides[0].Versions(ctx), ", "),
		m.version, instances, len(m.rows[0].ratios), m.seconds)
	b.WriteString(say("| store, SKUs, connections | round robin, sold/s | affinity, sold/s | ratio | ratio of p99 |\n",
		"| 存储、SKU 数、连接数 | 轮询，每秒售出 | 亲和，每秒售出 | 比值 | p99 之比 |\n") + "|---|---:|---:|---:|---:|\n")
	for i := range m.rows {
		r := &m.rows[i]
		fmt.Fprintf(&b, "| %s, %d, %d | %.0f | %.0f | %s | %s |\n",
			map[string]string{"mysql": "MySQL", "redis": "Redis"}[r.what.store], r.what.skus, r.what.connections,
			median(r.rates[0]), median(r.rates[1]), spread(r.ratios), spread(r.p99))
	}
	b.WriteString(say("\n| kill -9 of the instance that sells, started again after 2 s | requests in 8 s | no answer, "+
		"may have sold | refused or failed | books balance |\n",
		"\n| 对正在售卖的实例 kill -9，2 秒后重启 | 8 秒内的请求 | 无响应，可能已售出 | 拒绝或失败 | 账目平衡 |\n") + "|---|---:|---:|---:|---|\n")
	for i, d := range m.killed {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n",
			[][2]string{{"round robin", "轮询"}, {"affinity", "亲和"}}[i][l], d.requests, d.unknown, d.failed,
			map[bool]string{true: say("yes", "是"), false: say("no", "否")}[d.kept])
	}
	return b.String()
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

func spread(list []float64) string {
	return fmt.Sprintf("%.2f (%.2f – %.2f)", median(list), slices.Min(list), slices.Max(list))
}

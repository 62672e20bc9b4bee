package main

import (
	"fmt"
	"math"
	"strings"
)

type language int

const (
	en language = iota
	zh
)

// A text is what a person reads.
type text struct{ en, zh string }

func (t text) of(l language) string {
	if l == zh {
		return t.zh
	}
	return t.en
}

// A part is a table of the page, between <!-- mark --> and <!-- /mark -->.
type part struct {
	mark  string
	table func(c *constants, f *findings, l language) string
}

func parts() []part {
	return []part{
		{"constants", constantsTable},
		{"steps", stepsTable},
		{"check", checkTable},
		{"one-sku", worldTable},
		{"limits", limitsTable},
		{"shards", shardsTable},
		{"memory", memoryTable},
	}
}

var titles = map[string]string{"mysql": "MySQL", "redis": "Redis"}

// table writes a Markdown table. Cells of several languages cannot be aligned for all readers, so none are.
func table(b *strings.Builder, rows ...[]string) {
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
}

func heads(l language, list ...text) []string {
	var row []string
	for _, t := range list {
		row = append(row, t.of(l))
	}
	return row
}

func whole(f float64) string { return fmt.Sprintf("%.0f", f) }
func tenth(f float64) string { return fmt.Sprintf("%.1f", f) }

// about shows a rate to two digits: the model knows no more.
func about(f float64) string {
	if f <= 0 {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(f))-1)
	digits := fmt.Sprintf("%.0f", math.Round(f/unit)*unit)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// locking shows a limit of a store that keeps a row locked while it commits. Another does not wait for that.
func locking(k costs, limit float64) string {
	if k.TripsLocked == 0 {
		return "–"
	}
	return about(limit)
}

func constantsTable(c *constants, _ *findings, l language) string {
	var b strings.Builder
	fmt.Fprintf(&b, text{
		"Measured %s on %s. %s. stock %s.\n\n", "测于 %s，%s。%s。stock %s。\n\n",
	}.of(l), c.Began.UTC().Format("2006-01-02 15:04 MST"), c.Computer, strings.Join(c.Versions, ", "), c.Version)
	rows := [][]string{heads(l, text{"what one sale costs", "每单成本"}, text{"MySQL", "MySQL"}, text{"Redis", "Redis"})}
	add := func(what text, of func(costs) string) {
		row := []string{what.of(l)}
		for _, s := range c.Stores {
			row = append(row, of(s.Costs))
		}
		rows = append(rows, row)
	}
	priced := func(p price) string { return fmt.Sprintf("%.0f + %.0f / n", p.Each, p.Wake) }
	add(text{"CPU of wrk for a request, µs", "wrk 每个请求的 CPU，µs"}, func(k costs) string { return priced(k.Client) })
	add(text{"CPU of nginx for a request, µs", "nginx 每个请求的 CPU，µs"},
		func(k costs) string { return priced(k.Nginx) })
	add(text{"CPU of the instance for a request, µs", "实例每个请求的 CPU，µs"},
		func(k costs) string { return priced(k.Service) })
	lined := func(k line) string { return fmt.Sprintf("%.0f + %.1f n", k.A, k.B) }
	add(text{"CPU of the instance for a step of n sales, µs", "实例一步卖 n 单的 CPU，µs"},
		func(k costs) string { return lined(k.StepCaller) })
	add(text{"CPU of the store for a step of n sales, µs", "存储一步卖 n 单的 CPU，µs"},
		func(k costs) string { return lined(k.StepStore) })
	add(text{"time of a step that nobody's CPU takes (disk, waking up), µs", "一步中不占 CPU 的时间（磁盘、唤醒），µs"},
		func(k costs) string { return whole(k.StepWait) })
	add(text{"round trips of a step", "一步的往返次数"}, func(k costs) string { return whole(k.Trips) })
	add(text{"of these with the row locked", "其中持有行锁时的"}, func(k costs) string { return whole(k.TripsLocked) })
	table(&b, rows...)
	return b.String()
}

func stepsTable(c *constants, _ *findings, l language) string {
	var b strings.Builder
	rows := [][]string{heads(
		l, text{"store, sales in a step", "存储，一步的单数"}, text{"time, µs", "耗时，µs"},
		text{"CPU of the store, µs", "存储 CPU，µs"}, text{"µs a sale", "每单 µs"}, text{"statements", "语句"},
		text{"log to disk", "刷盘"}, text{"log, bytes a sale", "日志，每单字节"},
		text{"bytes to the store, a sale", "发往存储，每单字节"})}
	for _, s := range c.Stores {
		for _, p := range s.Steps {
			statements := p.Counts["redis scripts"]
			log, flushes := "–", "–"
			if s.Name == "mysql" {
				statements = p.Counts["mysql questions"]
				log, flushes = whole(p.Counts["mysql log bytes"]/float64(p.N)), tenth(p.Counts["mysql fsyncs"])
			}
			rows = append(rows, []string{
				fmt.Sprintf("%s, %d", titles[s.Name], p.N),
				whole(p.Wall), whole(p.Store), tenth(p.Store / float64(p.N)),
				tenth(statements), flushes, log, whole(p.Counts[s.Name+" bytes in"] / float64(p.N)),
			})
		}
	}
	table(&b, rows...)
	return b.String()
}

// busyShare is how many CPUs other programs may take in a run before the page warns.
const busyShare = 0.25

func checkTable(_ *constants, f *findings, l language) string {
	var b strings.Builder
	good, worst := 0, 0.0
	rows := [][]string{heads(
		l, text{"store, instances, connections", "存储，实例，连接"}, text{"measured, sold/s", "实测，每秒售出"},
		text{"model", "模型"}, text{"off by", "偏差"}, text{"sales in a step, measured", "一步的单数，实测"},
		text{"model", "模型"}, text{"CPUs that others took", "其他程序占用的 CPU"})}
	for _, c := range f.checks {
		if math.Abs(c.off()) <= within {
			good++
		}
		worst = max(worst, math.Abs(c.off()))
		rows = append(rows, []string{
			fmt.Sprintf("%s, %d, %d", titles[c.store.Name], c.Instances, c.Connections),
			whole(c.Rate), whole(c.model.rate),
			fmt.Sprintf("%+.0f %%", 100*c.off()), tenth(c.Batch), tenth(c.model.batch), fmt.Sprintf("%.2f", c.Others),
		})
	}
	table(&b, rows...)
	busy := 0.0
	for _, c := range f.checks {
		busy = max(busy, c.Others)
	}
	if busy > busyShare {
		b.WriteString(text{
			"\n**Other programs were busy meanwhile.** Measure again on an idle computer before you rely on this.\n",
			"\n**测量期间其他程序占用了 CPU。**用作依据之前，请在空闲的计算机上重测。\n",
		}.of(l))
	}
	fmt.Fprintf(&b, text{
		"\n%d of %d runs are within %.0f %% of the model; the worst is off by %.0f %%.\n",
		"\n%d 次运行中（共 %d 次）与模型相差不超过 %.0f %%；最差的相差 %.0f %%。\n",
	}.of(l), good, len(f.checks), 100*within, 100*worst)
	return b.String()
}

func worldTable(_ *constants, f *findings, l language) string {
	var b strings.Builder
	rows := [][]string{heads(l, text{"store, instances", "存储，实例"}, text{"sold/s", "每秒售出"},
		text{"sales in a step", "一步的单数"}, text{"p50, ms", "p50，ms"}, text{"p99, ms", "p99，ms"},
		text{"row locked", "行锁占用"}, text{"CPU of the store", "存储 CPU"})}
	for _, w := range f.worlds {
		rows = append(rows, []string{
			fmt.Sprintf("%s, %d", titles[w.store.Name], w.instances), about(w.rate), tenth(w.batch), tenth(w.p50),
			tenth(w.p99), fmt.Sprintf("%.0f %%", 100*w.row), fmt.Sprintf("%.0f %%", 100*w.account.store),
		})
	}
	table(&b, rows...)
	return b.String()
}

func limitsTable(c *constants, _ *findings, l language) string {
	var b strings.Builder
	rows := [][]string{heads(l, text{"limit", "上限"}, text{"MySQL", "MySQL"}, text{"Redis", "Redis"})}
	add := func(what text, of func(costs) string) {
		row := []string{what.of(l)}
		for _, s := range c.Stores {
			row = append(row, of(s.Costs))
		}
		rows = append(rows, row)
	}
	add(text{"one computer with an instance and its nginx, sold/s", "一台计算机上的一个实例加 nginx，每秒售出"},
		func(k costs) string { return about(frontLimit(k, limitOf)) })
	add(text{"one row, full batches one after the other, sold/s", "一行，整批一批接一批，每秒售出"},
		func(k costs) string { return about(rowLimit(k, 0)) })
	add(text{"the same, 1 ms more for each commit", "同上，每次提交多 1 ms"},
		func(k costs) string { return locking(k, rowLimit(k, 1000)) })
	add(text{"the same, 5 ms more for each commit", "同上，每次提交多 5 ms"},
		func(k costs) string { return locking(k, rowLimit(k, 5000)) })
	add(text{"8 segments of one SKU in one store, sold/s", "同一 SKU 在一个存储里分 8 段，每秒售出"},
		func(k costs) string { return about(segmentsLimit(k, 8, 0)) })
	add(text{"the same, 5 ms more for each commit", "同上，每次提交多 5 ms"},
		func(k costs) string { return locking(k, segmentsLimit(k, 8, 5000)) })
	add(text{"instances that keep one row busy", "占满一行所需的实例"}, func(k costs) string { return fmt.Sprint(knee(k)) })
	add(text{"one store, every sale of another SKU, sold/s", "一个存储，每单 SKU 各不相同，每秒售出"},
		func(k costs) string { return about(coldLimit(k)) })
	table(&b, rows...)
	return b.String()
}

func shardsTable(c *constants, _ *findings, l language) string {
	var b strings.Builder
	rows := [][]string{heads(l, text{"instances, shards", "实例，分片"}, text{"MySQL, all want one SKU", "MySQL，都要同一 SKU"},
		text{"MySQL, a million SKUs alike", "MySQL，一百万 SKU 均匀"}, text{"Redis, all want one SKU", "Redis，都要同一 SKU"},
		text{"Redis, a million SKUs alike", "Redis，一百万 SKU 均匀"})}
	for i, first := range shardsOf(c.Stores[0].Costs) {
		row := []string{fmt.Sprintf("%d, %d", first.instances, first.stores)}
		for _, s := range c.Stores {
			of := shardsOf(s.Costs)[i]
			row = append(row, about(of.hot), about(of.cold))
		}
		rows = append(rows, row)
	}
	table(&b, rows...)
	return b.String()
}

var weights = map[string]text{
	"waiter": {"sale that waits for a lock (`redis-watchdog`), all of one SKU", "等锁的一单（`redis-watchdog`），同一 SKU"},
	"merged": {"sale that waits for its batch (`merged`), all of one SKU", "等待合并的一单（`merged`），同一 SKU"},
	"batch":  {"batch under way, of one sale, each of another SKU", "进行中的一批（各一单），SKU 各不相同"},
	"kept redis": {
		"kept lease that nobody uses (`redis-watchdog` with `lock.keep`)", "无人使用的保留租约（`redis-watchdog`，`lock.keep`）",
	},
	"kept zookeeper": {
		"kept lease that nobody uses (`zk-sequential` with `lock.keep`)", "无人使用的保留租约（`zk-sequential`，`lock.keep`）",
	},
	"sku": {"SKU that was sold once (`redis-watchdog`)", "卖过一次的 SKU（`redis-watchdog`）"},
}

func memoryTable(c *constants, _ *findings, l language) string {
	var b strings.Builder
	rows := [][]string{heads(l, text{"what", "什么"}, text{"how many", "数量"},
		text{"bytes each, in the instance", "每个字节，实例"},
		text{"bytes each, in Redis", "每个字节，Redis"}, text{"left when they are gone, kB in all", "结束后残留，共 kB"})}
	for _, w := range c.Memory {
		server := whole(w.Server)
		if w.Server < 0 {
			server = "–"
		}
		rows = append(rows, []string{
			weights[w.What].of(l), about(float64(w.N)), whole(w.Bytes), server, whole(w.Left / 1000),
		})
	}
	table(&b, rows...)
	return b.String()
}

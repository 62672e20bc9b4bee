package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"example.com/stock/tools/bench/rig"
)

type language int

const (
	en language = iota
	zh
)

// of returns the words of a language.
func (t text) of(l language) string {
	if l == zh {
		return t.zh
	}
	return t.en
}

// page returns the page of docs in one language.
func (r *results) page(l language) string {
	const note = "<!-- Made by make bench-http ARGS='--write' from bench-http.json. Do not edit. -->\n\n"
	head := text{
		"# The endpoints side by side\n\n[中文](bench-http.zh-CN.md)\n\n" + note + `This page compares three instances
behind the project's own nginx.conf with a gin service behind the same nginx.conf, which answers "pong" and logs one
line for each request. The client is wrk, a closed loop: each connection sends its next request after the reply to the
last one. For the open loop, the project's own generator sends requests at scheduled times. Everything runs on one
computer, so if the servers of a row need less CPU, its client also gets more.

Fault handling, one log line for each request and durability are on: MariaDB must have each commit on its disk before
it answers; Redis runs without persistence, like a cache. After each measurement the books of the store are checked:
the initial stock must equal the remaining units plus the units in the store's orders. A run whose books do not balance
has no figures.

The limits of these figures, and the figures for more computers:
[operations.md](operations.md#past-one-computer). How to repeat them:
[tools/bench/README.md](../tools/bench/README.md#the-endpoints-over-http).

`,
		"# 接口并排测量\n\n[English](bench-http.md)\n\n" + note + `三个实例，前面是项目自己的 nginx.conf；旁边是一个 gin
服务，只回答 “pong”，每个请求写一行日志，前面是同样的 nginx.conf。客户端是 wrk：闭环，每个连接收到上一个响应后才发下一个请求。开环用项目自己的压测器，请求到点就发。所有程序在同一台计算机上，
所以一行省下的 CPU 也会留给它的客户端。

故障处理、每个请求一行日志、持久化都开着：MariaDB 每次提交先落盘再响应；Redis 不做持久化，与缓存的常见用法相同。每次测量之后都从存储核对账目：
期初库存 = 剩余 + 已售 = 存储里数出的订单。账目不平的运行不给出任何数字。

这些数字受什么限制、换成更多计算机会怎样：[operations.zh-CN.md](operations.zh-CN.md#一台计算机之外)。怎样重测：
[tools/bench/README.md](../tools/bench/README.md#the-endpoints-over-http)。

`,
	}
	return head.of(l) + r.render(l)
}

// render returns what is printed. It is also Markdown.
func (r *results) render(l language) string {
	var b strings.Builder
	line := func(t text, args ...any) { fmt.Fprintf(&b, t.of(l), args...) }
	line(text{"Measured %s on %s. ", "测于 %s，%s。"}, r.Began.UTC().Format("2006-01-02 15:04 MST"), r.Computer)
	fmt.Fprintf(&b, "%s", strings.Join(r.Versions, ", "))
	line(text{". stock %s", "。stock %s"}, r.Version)
	if r.Beside != "" {
		line(text{"; beside it, on servers of its own, %s", "；旁边是 %s，用它自己的服务器"}, r.Beside)
	}
	line(text{
		".\n%d rounds, each row %d s in each, in turns; %d instances; %.1f minutes in all. " +
			"Load average meanwhile: %s. Other programs took of the %d CPUs meanwhile: %s.\n",
		"。\n%d 轮，每轮每行 %d 秒，轮流进行；%d 个实例；共 %.1f 分钟。期间平均负载：%s。其他程序占用 %d 个 CPU 中的：%s。\n",
	}, r.Rounds, r.Seconds, r.Instances, r.Minutes, r.span(l, func(o outcome) float64 { return o.Load }), r.CPUs,
		r.span(l, func(o outcome) float64 { return o.Others }))
	if r.wasBusy() {
		line(text{
			"\n**Other programs were busy meanwhile.** Measure again on an idle computer before you rely on this.\n",
			"\n**测量期间其他程序占用了 CPU。**用作依据之前，请在空闲的计算机上重测。\n",
		})
	}
	line(text{"\n## Figures to reach\n\n", "\n## 目标\n\n"})
	line(text{
		"A ratio is the median of the ratios within a round; beside it the smallest and the largest.\n\n",
		"比值取各轮内比值的中位数；旁边是最小与最大。\n\n",
	})
	align(&b, r.figureCells(l))
	line(text{"\n## What was measured\n\n", "\n## 测量结果\n\n"})
	line(text{
		"Medians over the rounds. CPU in µs for each sale, refusal or reply: of the instances, of nginx, of the " +
			"store, of the client.\n\n",
		"各轮的中位数。CPU 以 µs 计，按每次售出、拒绝或响应平摊：实例、nginx、存储、客户端。\n\n",
	})
	align(&b, r.rowCells(l))
	if len(r.Shares) > 0 {
		line(text{"\n## Where the CPU time goes\n\n", "\n## CPU 时间的去向\n\n"})
		line(text{
			"µs of CPU for each sale or reply with %d connections, from profiles of the instances (100 samples for " +
				"each second of CPU time) and, for nginx and the stores, from /proc. System calls and memory count " +
				"for the part that asked for them. What gin ping needs, too, is the least that any endpoint costs " +
				"here.\n\n",
			"每次售出或响应的 CPU（µs），%d 个连接；实例来自剖析（每秒 CPU 时间采样 100 次），nginx 与存储来自 /proc。" +
				"系统调用与内存分配记在发起它的部分名下。gin ping 也要付出的，就是这里任何接口的最低成本。\n\n",
		}, many)
		align(&b, r.shareCells(l))
	}
	return b.String()
}

// busyShare is how many CPUs other programs may take, in the median, before the page warns.
const busyShare = 0.25

func (r *results) wasBusy() bool {
	var all []float64
	for _, s := range r.Rows {
		for _, o := range s.Rounds {
			all = append(all, o.Others)
		}
	}
	s, _ := spreadOf(all)
	return s.median > busyShare
}

// span returns the range and the median of something over all measurements.
func (r *results) span(l language, of func(outcome) float64) string {
	var all []float64
	for _, s := range r.Rows {
		for _, o := range s.Rounds {
			all = append(all, of(o))
		}
	}
	s, ok := spreadOf(all)
	if !ok {
		return "–"
	}
	return fmt.Sprintf(text{"%.2f to %.2f, median %.2f", "%.2f 至 %.2f，中位数 %.2f"}.of(l), s.least, s.most, s.median)
}

func (r *results) figureCells(l language) [][]string {
	cells := [][]string{{
		text{"figure", "指标"}.of(l), text{"target", "目标"}.of(l), text{"measured", "实测"}.of(l),
		text{"min – max", "最小 – 最大"}.of(l), "",
	}}
	for _, f := range r.figures() {
		target, got, span, said := "", "–", "–", text{"not measured", "未测"}
		if f.target > 0 {
			target = fmt.Sprintf(text{"at least %g", "至少 %g"}.of(l), f.target)
			if f.atMost {
				target = fmt.Sprintf(text{"at most %g", "至多 %g"}.of(l), f.target)
			}
		}
		if !f.missing {
			got, span = digits(f.got.median), digits(f.got.least)+" – "+digits(f.got.most)
			said = text{"not reached", "未达到"}
			if f.reached() {
				said = text{"reached", "达到"}
			}
			if f.target == 0 {
				said = text{}
			}
		}
		cells = append(cells, []string{f.text.of(l), target, got, span, said.of(l)})
	}
	return cells
}

// digits shows a ratio to about three digits.
func digits(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

func (r *results) rowCells(l language) [][]string {
	cells := [][]string{{
		text{"row", "行"}.of(l), text{"load", "负载"}.of(l), "/s", text{"min – max", "最小 – 最大"}.of(l), "p50 ms", "p99 ms",
		text{"service", "服务"}.of(l), "nginx", text{"store", "存储"}.of(l), text{"client", "客户端"}.of(l),
		text{"other outcomes", "其他结果"}.of(l),
	}}
	for _, s := range r.Rows {
		rates, ok := s.over(rate)
		if !ok {
			continue
		}
		cpu := func(parts ...string) string {
			total, _ := s.over(func(o outcome) (us float64) {
				for _, part := range parts {
					us += o.CPU[part]
				}
				return us
			})
			if total.median < 0.5 {
				return ""
			}
			return fmt.Sprintf("%.0f", total.median)
		}
		ms := func(of func(outcome) float64) string {
			if v, _ := s.over(of); v.median > 0 {
				return fmt.Sprintf("%.2f", v.median)
			}
			return ""
		}
		stores := []string{"redis", "zookeeper"}
		if s.Load == loop || s.Store() == "mysql" {
			stores = []string{"mysql"}
		}
		cells = append(cells, []string{
			r.rowName(l, s), s.loadName(l), fmt.Sprintf("%.0f", rates.median),
			fmt.Sprintf("%.0f – %.0f", rates.least, rates.most), ms(p50), ms(p99),
			cpu(rig.PartService), cpu(rig.PartNginx), cpu(stores...), cpu("client"), s.others(),
		})
	}
	return cells
}

// shareCells is a line for each part, and a column for each row that was profiled.
func (r *results) shareCells(l language) [][]string {
	names := map[string]text{
		partHTTP:      {"net/http: reading requests, writing replies", "net/http：读请求、写响应"},
		partHandler:   {"gin and the handler", "gin 与 handler"},
		partLog:       {"log and metrics", "日志与指标"},
		partService:   {"selling: queue, batch, limits of time", "售卖：排队、合批、时限"},
		partStore:     {"the store's own code: statements, gate", "存储代码：语句、闸门"},
		partDriver:    {"driver of Redis or MySQL", "Redis 或 MySQL 驱动"},
		partTraces:    {"traces, 1 % sampled", "追踪，采样 1 %"},
		partGC:        {"Go: collecting garbage", "Go：垃圾回收"},
		partRuntime:   {"Go: scheduling, waiting for sockets", "Go：调度、等待套接字"},
		rig.PartNginx: {"nginx", "nginx"}, "redis": {"Redis", "Redis"}, "mysql": {"MariaDB", "MariaDB"},
	}
	head, sums := []string{text{"part", "部分"}.of(l)}, []string{text{"together", "合计"}.of(l)}
	for _, s := range r.Shares {
		name := "`" + s.Row + "`"
		if s.Row == ping {
			name = "gin ping"
		}
		sum := 0.0
		for _, us := range s.Parts {
			sum += us
		}
		head, sums = append(head, name), append(sums, fmt.Sprintf("%.0f", sum))
	}
	cells := [][]string{head}
	for _, part := range partNames() {
		row := []string{names[part].of(l)}
		for _, s := range r.Shares {
			cell := ""
			if us := s.Parts[part]; us >= 0.5 {
				cell = fmt.Sprintf("%.0f", us)
			}
			row = append(row, cell)
		}
		cells = append(cells, row)
	}
	return append(cells, sums)
}

// Store returns the store of the row, which a file does not tell.
func (s *series) Store() string {
	for _, r := range rows() {
		if r.name == s.Row {
			return r.store
		}
	}
	return ""
}

func (r *results) rowName(l language, s *series) string {
	names := map[string]text{
		bareLoop:          {"bare loop, no HTTP", "裸循环，无 HTTP"},
		readLoop:          {"bare loop that reads, no HTTP", "带读取的裸循环，无 HTTP"},
		loopOf + "atomic": {"`atomic` MySQL, no HTTP", "`atomic` MySQL，无 HTTP"},
		loopOf + "merged": {"`merged` MySQL, no HTTP", "`merged` MySQL，无 HTTP"}, ping: {"gin ping", "gin ping"},
		traced: {"`merged/mysql`, two of four instances with traces", "`merged/mysql`，四个实例中两个打开追踪"},
		ordersOf + "atomic": {
			"`atomic` MySQL with customer, key and event, no HTTP", "`atomic` MySQL，带顾客、幂等键与事件，无 HTTP",
		},
		ordersOf + "merged": {
			"`merged` MySQL with customer, key and event, no HTTP", "`merged` MySQL，带顾客、幂等键与事件，无 HTTP",
		},
	}
	name, ok := names[s.Row]
	if !ok {
		name = text{"`" + s.Row + "`", "`" + s.Row + "`"}
	}
	if s.Beside {
		return name.of(l) + text{" of ", "，"}.of(l) + r.Beside
	}
	return name.of(l)
}

func (s *series) loadName(l language) string {
	switch {
	case s.Load == loop:
		return fmt.Sprintf(text{"sold, %d callers", "售出，%d 个调用者"}.of(l), s.Callers)
	case s.Load == due:
		offered, _ := s.over(func(o outcome) float64 { return o.Offered })
		return fmt.Sprintf(text{"sold, due %.0f/s", "售出，每秒到达 %.0f"}.of(l), offered.median)
	case s.Load == refused:
		return fmt.Sprintf(text{"refused, %d", "拒绝，%d"}.of(l), s.Callers)
	case s.Row == ping:
		return fmt.Sprintf(text{"answered, %d", "响应，%d"}.of(l), s.Callers)
	}
	return fmt.Sprintf(text{"sold, %d", "售出，%d"}.of(l), s.Callers)
}

// others adds up the other outcomes of all rounds.
func (s *series) others() string {
	sum := map[string]int64{}
	for _, o := range s.Rounds {
		for name, n := range o.Other {
			sum[name] += n
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		list = append(list, fmt.Sprintf("%s %d", name, sum[name]))
	}
	return strings.Join(list, ", ")
}

// align writes a Markdown table whose columns are also aligned as plain text.
func align(b *strings.Builder, cells [][]string) {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], width(cell), 3)
		}
	}
	for n, line := range cells {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-width(cell))
			if i < 2 && len(cells[0]) > 5 || i == 0 {
				fmt.Fprintf(b, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(b, "| %s%s ", pad, cell)
			}
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i, w := range widths {
			rule := strings.Repeat("-", w)
			if !(i < 2 && len(cells[0]) > 5 || i == 0) {
				rule = rule[1:] + ":"
			}
			fmt.Fprintf(b, "| %s ", rule)
		}
		b.WriteString("|\n")
	}
}

// width is the number of columns that text takes: a Chinese character takes two.
func width(text string) (n int) {
	for _, r := range text {
		n++
		if unicode.Is(unicode.Han, r) || r >= 0xff00 && r <= 0xff60 || r >= 0x3000 && r <= 0x303f {
			n++
		}
	}
	return n
}

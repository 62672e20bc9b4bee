package main

import "fmt"

// A figure is a ratio that is to be reached.
type figure struct {
	text    text
	target  float64 // 0: none is set
	atMost  bool
	got     spread
	missing bool // what it needs was not measured
}

// A text is what a person reads.
type text struct{ en, zh string }

func (f *figure) reached() bool {
	if f.atMost {
		return f.got.median <= f.target
	}
	return f.got.median >= f.target
}

// figures returns those of issue 12, in its order, and what a key and an event cost (issue 13). Those against
// atomic/mysql are against the program --beside, if it was measured there.
func (r *results) figures() []figure {
	var list []figure
	add := func(what text, target float64, atMost bool, got spread, ok bool) {
		list = append(list, figure{what, target, atMost, got, !ok})
	}
	ratio := func(what text, target float64, of, to *series) {
		got, ok := of.ratio(to, rate, rate)
		add(what, target, false, got, ok)
	}
	sells := func(row string, callers int) *series { return r.find(row, sold, callers, false) }
	loops := func(of string, callers int) *series { return r.find(of, loop, callers, false) }
	before, name := r.before(sold, few), r.beforeName()

	ratio(text{
		"`merged` MySQL / " + name.en + ", sold/s, 30 connections",
		"`merged` MySQL / " + name.zh + "，每秒售出，30 连接",
	}, 5, sells("merged/mysql", few), before)
	ratio(text{"the same, 128 connections", "同上，128 连接"}, 8, sells("merged/mysql", many), r.before(sold, many))
	ratio(text{"`merged` MySQL / gin ping, 128 connections", "`merged` MySQL / gin ping，128 连接"}, 0.5,
		sells("merged/mysql", many), sells(ping, many))
	ratio(text{"`merged` Redis / gin ping, 128 connections", "`merged` Redis / gin ping，128 连接"}, 0.65,
		sells("merged/redis", many), sells(ping, many))
	ratio(text{"`atomic` Redis / gin ping, 30 connections", "`atomic` Redis / gin ping，30 连接"}, 0.65,
		sells("atomic/redis", few), sells(ping, few))

	ratio(text{
		"`atomic` MySQL / bare loop of UPDATE, INSERT, COMMIT, no HTTP, 30 callers",
		"`atomic` MySQL / 裸循环 UPDATE、INSERT、COMMIT，无 HTTP，30 个调用者",
	}, 1.2, loops(loopOf+"atomic", few), loops(bareLoop, few))
	ratio(text{
		"`atomic` MySQL / a bare loop that returns what it read: SELECT FOR UPDATE; UPDATE, INSERT, COMMIT",
		"`atomic` MySQL / 返回所读内容的裸循环：SELECT FOR UPDATE；UPDATE、INSERT、COMMIT",
	}, 0, loops(loopOf+"atomic", few), loops(readLoop, few))
	ratio(text{"`merged` MySQL / bare loop, no HTTP, 30 callers", "`merged` MySQL / 裸循环，无 HTTP，30 个调用者"}, 5,
		loops(loopOf+"merged", few), loops(bareLoop, few))
	ratio(text{"the same, 256 callers", "同上，256 个调用者"}, 20,
		loops(loopOf+"merged", manyNoHTTP), loops(bareLoop, manyNoHTTP))

	ratio(text{
		"`atomic` MySQL with customer, key and event / without, no HTTP, 30 callers",
		"`atomic` MySQL：带顾客、幂等键与事件 / 不带，无 HTTP，30 个调用者",
	}, 0.7, loops(ordersOf+"atomic", few), loops(loopOf+"atomic", few))
	ratio(text{"the same, both `merged`", "同上，两者都是 `merged`"}, 0,
		loops(ordersOf+"merged", few), loops(loopOf+"merged", few))

	ratio(text{
		"`orders/mysql` (a customer, key and event) / `merged/mysql`, sold/s, 30 connections",
		"`orders/mysql`（带顾客、幂等键与事件）/ `merged/mysql`，每秒售出，30 连接",
	}, 0.7, sells(orders, few), sells("merged/mysql", few))
	ratio(text{"the same, 128 connections", "同上，128 连接"}, 0.7, sells(orders, many), sells("merged/mysql", many))

	for _, row := range []string{proven, limited} {
		got, ok := sells(row, many).ratio(sells(orders, many), serverCPU("mysql"), serverCPU("mysql"))
		target := 0.0
		if row == proven {
			target = 1.1
		}
		add(text{
			fmt.Sprintf("CPU per sale of service and store: `%s` / `%s`, 128 connections", row, orders),
			fmt.Sprintf("每单 CPU（服务与存储）：`%s` / `%s`，128 连接", row, orders),
		}, target, true, got, ok)
	}

	got, ok := sells(traced, many).paired(func(p *paired) float64 { return p.On })
	add(text{
		"CPU per sale of service, nginx and store: `merged` MySQL with traces, 1 % sampled / without, at the same time",
		"每单 CPU（服务、nginx 与存储）：`merged` MySQL，打开追踪、采样 1 % / 不打开，同时测量",
	}, 1.03, true, got, ok)
	got, ok = sells(traced, many).paired(func(p *paired) float64 { return p.Off * p.Control })
	add(text{
		"the control: the same of two instances without traces",
		"对照：两个都不打开追踪的实例",
	}, 0, true, got, ok)
	refuses := func(row string) *series { return r.find(row, refused, many, false) }
	for _, strategy := range []string{"merged", "atomic"} {
		ratio(text{
			"refusals/s of `" + strategy + "`: MySQL / Redis, 128 connections",
			"`" + strategy + "` 每秒拒绝：MySQL / Redis，128 连接",
		}, 0.8, refuses(strategy+"/mysql"), refuses(strategy+"/redis"))
	}

	got, ok = sells("merged/mysql", few).ratio(before, p99, p99)
	add(text{
		"p99 of `merged` MySQL / of " + name.en + ", 30 connections",
		"p99：`merged` MySQL / " + name.zh + "，30 连接",
	}, 0.33, true, got, ok)
	got, ok = r.find("merged/mysql", due, 0, false).ratio(r.before(due, 0), p99, p99)
	add(text{
		"the same, open loop: requests due at 0.7 of what the latter sold",
		"同上，开环：请求按后者售出速率的 0.7 到达",
	}, 0.33, true, got, ok)

	ratio(text{
		"`zk-merged` / `zk-sequential`, sold/s, 128 connections",
		"`zk-merged` / `zk-sequential`，每秒售出，128 连接",
	}, 5, sells("zk-merged", many), sells("zk-sequential", many))

	for _, callers := range []int{many, few} {
		got, ok = sells("merged/mysql", callers).ratio(sells("atomic/redis", callers), serverCPU("mysql"),
			serverCPU("redis"))
		what, target := text{
			"CPU per sale of service and store: `merged` MySQL / `atomic` Redis, 128 connections",
			"每单 CPU（服务与存储）：`merged` MySQL / `atomic` Redis，128 连接",
		}, 1.3
		if callers == few {
			what, target = text{"the same, 30 connections", "同上，30 连接"}, 0
		}
		add(what, target, true, got, ok)
	}
	return list
}

// before returns the series of atomic/mysql that figures are held against.
func (r *results) before(load string, callers int) *series {
	if s := r.find(slow, load, callers, true); s != nil {
		return s
	}
	return r.find(slow, load, callers, false)
}

func (r *results) beforeName() text {
	if r.find(slow, sold, few, true) == nil {
		return text{"`atomic` MySQL", "`atomic` MySQL"}
	}
	return text{"`atomic` MySQL of " + r.Beside, r.Beside + " 的 `atomic` MySQL"}
}

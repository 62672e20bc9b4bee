package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/tools/bench/rig"
)

// A reading holds what the servers have done since they started. What cannot be read on this system is left out.
type reading struct {
	commands map[string]float64
	cpu      map[string]float64 // µs
	busy     float64            // µs of all CPUs
	took     time.Duration      // since some beginning
}

func (c *contest) meter(ctx context.Context) reading {
	r := reading{
		commands: map[string]float64{}, cpu: map[string]float64{}, busy: rig.BusyTime(), took: time.Since(c.began),
	}
	if us, ok := rig.ProcessTime(os.Getpid()); ok {
		r.cpu["bench"] = us // the proxies
	}
	if info, err := c.redis.Info(ctx, "commandstats").Result(); err == nil {
		r.commands = commandCounts(info)
	}
	for _, kind := range []server.Kind{server.Redis, server.ZooKeeper, server.MySQL} {
		if server := c.servers.Server(string(kind)); server != nil {
			if us, ok := rig.ProcessTime(server.Pid()); ok {
				r.cpu[string(kind)] = us
			}
		}
	}
	return r
}

// commandCounts reads lines such as cmdstat_get:calls=21,usec=175,...
func commandCounts(info string) map[string]float64 {
	counts := map[string]float64{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		counts[name], _ = strconv.ParseFloat(calls, 64)
	}
	delete(counts, "info") // ours
	return counts
}

func (r reading) since(before reading) reading {
	d := reading{
		commands: map[string]float64{}, cpu: map[string]float64{}, busy: r.busy - before.busy,
		took: r.took - before.took,
	}
	for name, n := range r.commands {
		if n -= before.commands[name]; n > 0 {
			d.commands[name] = n
		}
	}
	for name, us := range r.cpu {
		d.cpu[name] = us - before.cpu[name]
	}
	return d
}

// use records what the servers did for each turn.
func (o *outcome) use(r reading) {
	turns := float64(max(o.turns(), 1))
	o.Commands, o.CPU = r.commands, r.cpu
	o.Others = -1
	if r.busy > 0 {
		others := r.busy
		for _, us := range r.cpu {
			others -= us
		}
		o.Others = max(0, others/float64(r.took.Microseconds()))
	}
	for name := range o.Commands {
		o.Commands[name] /= turns
	}
	for name := range o.CPU {
		o.CPU[name] /= turns
	}
}

// computer describes this computer in a line.
func computer() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d CPUs (%s), %s", runtime.NumCPU(), model, runtime.GOOS)
}

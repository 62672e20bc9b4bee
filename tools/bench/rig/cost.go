package rig

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
)

// The parts of a [Side] whose CPU time is told apart, besides those named like the stores.
const (
	PartService = "service" // all instances
	PartNginx   = "nginx"
)

// A Reading is what the parts have done since they started. What cannot be read on this system is left out.
type Reading struct {
	CPU    map[string]float64 // µs, by part
	Busy   float64            // µs of all CPUs of this computer
	Counts map[string]float64 // what the stores count; see [Side.Read]
}

// Read reads CPU times and counters. Counters are "mysql questions", "mysql commits", "mysql log fsyncs", "mysql log
// bytes", "mysql bytes in", "mysql bytes out", "redis scripts", "redis bytes in" and "redis bytes out".
func (s *Side) Read(ctx context.Context) Reading {
	r := Reading{CPU: s.CPU(), Busy: BusyTime(), Counts: map[string]float64{}}
	if s.Redis != nil {
		countRedis(ctx, s.Redis, r.Counts)
	}
	if s.DB == nil {
		return r
	}
	rows, err := s.DB.QueryContext(ctx, "SHOW GLOBAL STATUS")
	if err != nil {
		return r
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if rows.Scan(&name, &value) != nil {
			break
		}
		if ours := counted[name]; ours != "" {
			r.Counts[ours], _ = strconv.ParseFloat(value, 64)
		}
	}
	return r
}

// counted maps MariaDB's names to ours.
var counted = map[string]string{
	"Questions": "mysql questions", "Com_commit": "mysql commits", "Innodb_os_log_written": "mysql log bytes",
	"Innodb_data_fsyncs": "mysql fsyncs", "Bytes_received": "mysql bytes in", "Bytes_sent": "mysql bytes out",
}

func countRedis(ctx context.Context, c *redis.Client, into map[string]float64) {
	for _, section := range []string{"stats", "commandstats"} {
		info, err := c.Info(ctx, section).Result()
		if err != nil {
			return
		}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch name {
			case "total_net_input_bytes":
				into["redis bytes in"], _ = strconv.ParseFloat(value, 64)
			case "total_net_output_bytes":
				into["redis bytes out"], _ = strconv.ParseFloat(value, 64)
			case "cmdstat_evalsha":
				calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				into["redis scripts"], _ = strconv.ParseFloat(calls, 64)
			}
		}
	}
}

// Since returns what was done since before.
func (r Reading) Since(before Reading) Reading {
	d := Reading{CPU: map[string]float64{}, Counts: map[string]float64{}, Busy: r.Busy - before.Busy}
	for name, v := range r.CPU {
		d.CPU[name] = v - before.CPU[name]
	}
	for name, v := range r.Counts {
		d.Counts[name] = v - before.Counts[name]
	}
	return d
}

// CPU returns the CPU time of each part in µs, to 10 ms: that is a tick of Linux, and other systems have no /proc.
// nginx is its master and its workers.
func (s *Side) CPU() map[string]float64 {
	groups := groupTimes()
	cpu := map[string]float64{}
	if groups == nil {
		return cpu
	}
	for name, server := range s.servers {
		cpu[name] = groups[server.Pid()]
	}
	for _, server := range s.instances {
		cpu[PartService] += groups[server.Pid()]
	}
	return cpu
}

// groupTimes returns the CPU time of every process group, in µs. Package stack gives each server a group of its own.
func groupTimes() map[int]float64 {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return nil
	}
	groups := make(map[int]float64)
	for _, file := range files {
		if group, us, ok := processTime(file); ok {
			groups[group] += us
		}
	}
	return groups
}

// SelfTime returns the CPU time of this process in µs.
func SelfTime() float64 {
	_, us, _ := processTime("/proc/self/stat")
	return us
}

// ProcessTime returns the CPU time of a process in µs, if it can be read.
func ProcessTime(pid int) (us float64, ok bool) {
	_, us, ok = processTime(fmt.Sprintf("/proc/%d/stat", pid))
	return us, ok
}

// processTime reads a stat file of /proc.
func processTime(file string) (group int, us float64, ok bool) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third on: the name may have blanks
	if len(fields) < 13 {
		return 0, 0, false
	}
	group, err1 := strconv.Atoi(string(fields[2]))
	user, err2 := strconv.ParseFloat(string(fields[11]), 64)
	system, err3 := strconv.ParseFloat(string(fields[12]), 64)
	return group, (user + system) * 10_000, err1 == nil && err2 == nil && err3 == nil
}

// BusyTime returns the CPU time of all programs on this computer in µs, or 0 if it cannot be read.
func BusyTime() (us float64) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line) {
		// the name, idle, waiting for a disk, and guests, who are counted as user
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		ticks, _ := strconv.ParseFloat(field, 64)
		us += ticks * 10_000
	}
	return us
}

// Outcomes returns how many deductions each outcome had so far, by all instances: "accepted", or the problem's type.
func (s *Side) Outcomes(ctx context.Context, strategy string) (map[string]int64, error) {
	return s.OutcomesOf(ctx, strategy, s.instances...)
}

// OutcomesOf is Outcomes of some of the instances.
func (s *Side) OutcomesOf(ctx context.Context, strategy string, of ...*stack.Server) (map[string]int64, error) {
	outcomes := map[string]int64{}
	for _, server := range of {
		if err := s.countOutcomes(ctx, server, strategy, outcomes); err != nil {
			return nil, fmt.Errorf("metrics of %s of %s: %w", server.Name, s.Name, err)
		}
	}
	return outcomes, nil
}

func (s *Side) countOutcomes(ctx context.Context, server *stack.Server, strategy string, into map[string]int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Admin+"/metrics", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+Token)
	res, err := s.asks.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), `stock_deductions_total{outcome="`)
		if !ok {
			continue
		}
		outcome, rest, _ := strings.Cut(rest, `",strategy="`)
		name, number, ok := strings.Cut(rest, `"} `)
		count, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil {
			return fmt.Errorf("read %q", lines.Text())
		}
		if name == strategy {
			into[outcome] += int64(count)
		}
	}
	return lines.Err()
}

// Computer describes this computer in a line.
func Computer() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel := ""
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = " " + strings.TrimSpace(string(text))
	}
	return fmt.Sprintf("%d CPUs (%s), %s%s", runtime.NumCPU(), model, runtime.GOOS, kernel)
}

// LoadAverage returns that of the last minute, or 0 if it cannot be read.
func LoadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// CPUs is the number of CPUs that this process may use.
func CPUs() int { return runtime.NumCPU() }

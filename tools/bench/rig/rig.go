// Package rig has what both benchmarks need of this computer, and of the page that they write into.
package rig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lock/locktest/server"
)

// ProcessTime returns the CPU time of a process in µs, to 10 ms: that is a tick of Linux. Other systems have no /proc.
func ProcessTime(pid int) (us float64, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third on: the name may have blanks
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseFloat(string(fields[11]), 64)
	system, err2 := strconv.ParseFloat(string(fields[12]), 64)
	return (user + system) * 10_000, err1 == nil && err2 == nil
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

// LoadAverage returns that of the last minute, or -1 if it cannot be read.
func LoadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return load
}

// Median returns the median of a list, which must not be empty.
func Median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// ZooKeeperVersion asks a server for its version; "" if it does not answer.
func ZooKeeperVersion(addr string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	reply, err := server.ZooKeeperWord(ctx, addr, "srvr")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(reply, "\n")
	version, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return version
}

// Fill puts what was made into a file, between <!-- bench --> and <!-- /bench -->.
func Fill(file, made string) error {
	const begin, end = "<!-- bench -->\n", "<!-- /bench -->"
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, begins := strings.Cut(string(page), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("%s: there is no %s and %s", file, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(file, []byte(head+begin+made+end+tail), 0o644)
}

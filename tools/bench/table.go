package main

import (
	"fmt"
	"strings"

	"example.com/stock/lock/locktest/server"
)

// A shape is the number of contenders and of keys.
type shape struct {
	Procs      int  `json:"processes"`
	Contenders int  `json:"contenders"` // of each process
	Keys       int  `json:"keys"`
	Delayed    bool `json:"delayed"`
	Idle       bool `json:"idle,omitempty"` // no work: acquire and release
}

// A table is some entrants in the same shape.
type table struct {
	name, title string
	shapes      []shape
	takes       func(entrant) bool
	slices      int // of each round, shorter and spread over it: what is quick is easily disturbed
}

// The names of the tables.
const (
	contended     = "contended"
	single        = "single"
	keys          = "keys"
	delayed       = "delayed"
	delayedSingle = "delayed-single"
	again         = "again"
)

func tables() []table {
	thirty, one := shape{Procs: 3, Contenders: 10, Keys: 1}, shape{Procs: 1, Contenders: 1, Keys: 1}
	slowThirty, slowOne := thirty, one
	slowThirty.Delayed, slowOne.Delayed = true, true
	idle := one
	idle.Idle = true
	many := []shape{thirty, thirty, thirty, thirty}
	for i := range many {
		many[i].Keys = []int{1, 10, 100, 1000}[i]
	}
	few := func(e entrant) bool {
		return e.base() == nameWatchdog || e.name == nameRedislock || e.name == nameNone || e.name == nameSmallest
	}
	networked := func(e entrant) bool { return e.server != server.MySQL }
	notRace := func(e entrant) bool { return e.name != nameNone }
	return []table{
		{contended, "One key, 3 processes x 10 contenders", []shape{thirty}, func(entrant) bool { return true }, 1},
		{single, "One key, one contender", []shape{one}, notRace, 3},
		{keys, "3 processes x 10 contenders, each turn on a key drawn at random", many, few, 1},
		{again, "One key, one contender, no work: acquire and release", []shape{idle}, func(e entrant) bool {
			return e.server == server.Redis && (e.side != bound || e.name == nameSmallest)
		}, 3},
		{
			delayed, "One key, 3 processes x 10 contenders, %v added to every round trip",
			[]shape{slowThirty},
			networked,
			1,
		},
		{delayedSingle, "One key, one contender, %v added to every round trip", []shape{slowOne}, func(e entrant) bool {
			return networked(e) && notRace(e)
		}, 1},
	}
}

func tableNames() (names []string) {
	for _, t := range tables() {
		names = append(names, t.name)
	}
	return names
}

// A job is one cell: an entrant in a shape.
type job struct {
	table   string
	entrant entrant
	slices  int
	shape
}

// profile returns the name of its CPU profile.
func (j job) profile() string {
	name := strings.NewReplacer(" ", "-", "/", "-", ",", "", "(", "", ")", "").Replace(j.entrant.name)
	return fmt.Sprintf("%s_%s_%dkeys.pprof", j.table, name, j.Keys)
}

// jobs returns what is to be measured in each round.
func (c *contest) jobs() (jobs []job) {
	for _, t := range tables() {
		if !c.settings.tables.MatchString(t.name) {
			continue
		}
		for _, s := range t.shapes {
			for _, e := range beside(entrants(), c.settings.beside) {
				if !t.takes(e) || !c.settings.only.MatchString(e.name) || c.missing[e.name] != "" {
					continue
				}
				mine := s
				if e.alone {
					mine.Procs, mine.Contenders = 1, 1
				}
				jobs = append(jobs, job{t.name, e, t.slices, mine})
			}
		}
	}
	return jobs
}

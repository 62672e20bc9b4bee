package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"example.com/stock/lock"
	"example.com/stock/strategy"
)

// addServerFlags gives flags those settings of "stock serve" that say where the servers are and how to lock. The result has all of
// them, for loadConfig: the others keep to file and environment.
func addServerFlags(flags *pflag.FlagSet) *pflag.FlagSet {
	all := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	addConfigFlags(all)
	about := []string{"config", "instance", "log-level", "redis-", "redlock-", "zookeeper-", "mysql-", "lock-"}
	all.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "mysql-migrate", "lock-handover", "lock-segments", "lock-max-waiters", "lock-max-hold":
			return // those of an instance that serves
		}
		if slices.ContainsFunc(about, func(prefix string) bool { return strings.HasPrefix(f.Name, prefix) }) {
			flags.AddFlag(f)
		}
	})
	return all
}

// toolLogger is silent unless it is asked for: what matters to whoever types a command is said in its own words.
func toolLogger(w io.Writer, cfg Config) *slog.Logger {
	log := slog.New(slog.DiscardHandler)
	if cfg.Log.Level == "debug" {
		log = newLogger(w, cfg)
	}
	redis.SetLogger(redisLog{log})
	return log
}

// locks are the strategies that are a lock and nothing else, and hold across machines.
func locks() []strategy.Strategy {
	return slices.DeleteFunc(strategy.All(), func(s strategy.Strategy) bool {
		return s.Lock == nil || s.Around != nil || s.Promise.Scope != lock.Cluster
	})
}

func findLock(name string) (strategy.Strategy, error) {
	var names []string
	for _, s := range locks() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	if _, err := strategy.Lookup(name); err == nil {
		return strategy.Strategy{}, fmt.Errorf("strategy %s is no lock between machines; use one of %s", name, strings.Join(names, ", "))
	}
	return strategy.Strategy{}, fmt.Errorf("unknown strategy %q; use one of %s", name, strings.Join(names, ", "))
}

// openServers opens the servers that the strategies need. It waits for none of them.
func openServers(cfg Config, log *slog.Logger, needed ...strategy.Strategy) (*app, error) {
	cfg.Lock.HandOver = false // one contender in this process
	a := newApp(cfg, log)
	for _, server := range a.openers() {
		if !slices.ContainsFunc(needed, func(s strategy.Strategy) bool { return slices.Contains(s.Needs, server.name) }) {
			continue
		}
		if err := server.open(); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	return a, nil
}

// openLock makes the lock of s, or says what is not configured.
func (a *app) openLock(s strategy.Strategy) (lock.Locker, error) {
	for _, need := range s.Needs {
		switch b := a.backends[need]; {
		case b == nil:
			return nil, &lock.DownError{Server: need, Reason: "it cannot be configured here"}
		case b.IsAbsent():
			return nil, b.Err()
		}
	}
	l := s.Lock(a.servers)
	if c, ok := l.(io.Closer); ok {
		a.closers = append(a.closers, c.Close)
	}
	return l, nil
}

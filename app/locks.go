package app

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// AddLockFlags adds the settings of servers and locks to flags, for a program that uses locks without being an
// instance. It returns the flags of all settings. Pass them to Load, so that the file and the environment can set the
// other settings.
func AddLockFlags(flags *pflag.FlagSet) *pflag.FlagSet {
	all := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	AddFlags(all)
	about := []string{
		"config", "instance", "log-level", "redis-", "redlock-", "zookeeper-", "mysql-", "lock-", "server-tls-",
	}
	all.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "mysql-single-writer", "lock-handover", "lock-segments", "lock-max-hold":
			return // settings of a serving instance
		}
		if slices.ContainsFunc(about, func(prefix string) bool { return strings.HasPrefix(f.Name, prefix) }) {
			flags.AddFlag(f)
		}
	})
	return all
}

// AllLocks returns the strategies whose lock also excludes holders on other machines.
func AllLocks() []strategy.Strategy {
	return slices.DeleteFunc(strategy.All(), func(s strategy.Strategy) bool {
		return s.Lock == nil || s.Around != nil || s.Promise.Scope != driver.Cluster
	})
}

// FindLock returns the strategy with that name. If it is not in AllLocks, the error has the names of AllLocks; it is an
// UnknownError if there is no such strategy at all.
func FindLock(name string) (strategy.Strategy, error) {
	var names []string
	for _, s := range AllLocks() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	if _, err := strategy.Lookup(name); err == nil {
		return strategy.Strategy{}, phrases.Error("no-lock", "name", name, "list", strings.Join(names, ", "))
	}
	return strategy.Strategy{}, &strategy.UnknownError{Name: name, Names: names}
}

// CheckKey returns an error if key cannot be the key of a lock.
func CheckKey(key string) error { return explained(service.CheckKey(key), true) }

// Locks are open clients of the servers that some locks need.
type Locks struct{ app *App }

// OpenLocks opens clients of the servers that the strategies need. It waits for no server. The caller must close the
// result.
func OpenLocks(cfg Config, log *slog.Logger, needed ...strategy.Strategy) (*Locks, error) {
	cfg.Lock.HandOver = false // this process has one contender
	a := newApp(cfg, "", log)
	for _, server := range a.openers() {
		needs := func(s strategy.Strategy) bool { return slices.Contains(s.Needs, server.name) }
		if !slices.ContainsFunc(needed, needs) {
			continue
		}
		if err := server.open(); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	return &Locks{a}, nil
}

// Open returns the lock of s, which OpenLocks was called with. The error names a server that is not configured.
func (l *Locks) Open(s strategy.Strategy) (lock.Locker, error) {
	for _, need := range s.Needs {
		if b := l.app.backends[need]; b.IsAbsent() {
			return nil, b.Err()
		}
	}
	locker := s.Lock(l.app.servers)
	if c, ok := locker.(io.Closer); ok {
		l.app.closers = append(l.app.closers, c.Close)
	}
	return locker, nil
}

func (l *Locks) Close() error { return l.app.close() }

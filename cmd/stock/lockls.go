package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/loadtest"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service/strategy"
)

func lockListCommand(v voice) *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use: "ls [strategy] [key ...]",
	}
	cmd.Flags().StringVar(&url, "url", "", "")
	config := app.AddLockFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list := lockTable{voice: v, to: cmd.ErrOrStderr()}
		defer func() { _ = list.print(cmd.OutOrStdout()) }()
		if url != "" {
			if len(args) < 2 {
				return failure("lock.no-keys", "url", url)
			}
			return list.end(list.ask(cmd.Context(), url, args[0], args[1:]))
		}
		cfg, err := app.Load(config)
		if err != nil {
			return err
		}
		wanted := app.AllLocks()
		if len(args) > 0 {
			s, err := strategy.Lookup(args[0])
			if err != nil || s.Around == nil {
				s, err = app.FindLock(args[0])
			}
			if err != nil {
				return err
			}
			wanted, args = []strategy.Strategy{s}, args[1:]
		}
		locks, err := app.OpenLocks(cfg, lockLogger(cmd.ErrOrStderr(), cfg), wanted...)
		if err != nil {
			return err
		}
		defer func() { _ = locks.Close() }()
		return list.end(list.servers(cmd.Context(), locks, wanted, args))
	}
	return cmd
}

// A lockTable prints the states of locks as they arrive.
type lockTable struct {
	voice
	table
	to io.Writer // for what is no part of the table
}

// end prints a line if the table is empty.
func (l *lockTable) end(err error) error {
	if err == nil && len(l.table) == 0 {
		fmt.Fprintln(l.to, l.say("lock.none"))
	}
	return err
}

func (l *lockTable) add(strategy, key string, s lock.State) {
	if s.Holder != nil {
		left := ""
		switch {
		case s.Holder.Remaining == driver.Forever:
			left = l.say("lock.forever")
		case s.Holder.Remaining > 0:
			left = brief(s.Holder.Remaining)
		}
		l.contender(strategy, key, l.say("lock.holds"), *s.Holder, left)
	}
	for i, w := range s.Waiters {
		l.contender(strategy, key, l.say("lock.waits", "n", i+1), w, "")
	}
}

func (l *lockTable) contender(strategy, key, place string, c lock.Contender, left string) {
	if len(l.table) == 0 {
		l.head(l.say("lock.columns"))
	}
	fence := ""
	if c.Fence != lock.NoFence {
		fence = fmt.Sprint(c.Fence)
	}
	l.line(strategy, key, place, l.orUnknown(c.Who), forHow(c.Since), left, fence)
}

// ask sends a request to an instance.
func (l *lockTable) ask(ctx context.Context, url, strategy string, keys []string) error {
	for _, key := range keys {
		reply, err := askLock[struct {
			seenState
			Segments []struct {
				Key string
				seenState
			}
		}](ctx, l.voice, http.MethodGet, url, strategy, key, os.Getenv("STOCK_ADMIN_TOKEN"))
		if err != nil {
			return err
		}
		l.add(strategy, key, reply.state())
		for _, segment := range reply.Segments {
			l.add(strategy, segment.Key, segment.state())
		}
	}
	return nil
}

// A seenState is the holder and the waiters of a key, as an instance reports them.
type seenState struct {
	Holder  *seenContender
	Waiters []seenContender
}

func (s seenState) state() (seen lock.State) {
	contender := func(c seenContender) lock.Contender {
		return lock.Contender{
			Who:       c.Who,
			Since:     c.since(),
			Fence:     lock.Fence(c.Fence),
			Remaining: time.Duration(c.RemainingMS * float64(time.Millisecond)),
		}
	}
	if s.Holder != nil {
		holder := contender(*s.Holder)
		seen.Holder = &holder
	}
	for _, w := range s.Waiters {
		seen.Waiters = append(seen.Waiters, contender(w))
	}
	return seen
}

// servers asks the servers of the locks. It reports those that cannot be asked, and fails if none can.
func (l *lockTable) servers(ctx context.Context, locks *app.Locks, wanted []strategy.Strategy, keys []string) error {
	var failed []error
	for _, s := range wanted {
		if err := l.one(ctx, locks, s, keys); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	if len(failed) == len(wanted) {
		return exitError{exitDown, errors.Join(failed...)}
	}
	for _, err := range failed {
		fmt.Fprintln(l.to, "stock:", l.message(err))
	}
	return nil
}

func (l *lockTable) one(ctx context.Context, locks *app.Locks, s strategy.Strategy, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
	defer cancel()
	locker, err := locks.Open(s)
	if err != nil {
		return err
	}
	lister, lists := locker.(driver.Lister)
	if lists && (len(keys) == 0 || s.Around != nil) {
		all, err := lister.Keys(ctx)
		if err != nil {
			return err
		}
		if s.Around != nil {
			all = segmentsOf(all, keys)
		}
		keys = all
	}
	states, err := lock.InspectAll(ctx, locker, keys)
	for i, state := range states {
		l.add(s.Name, keys[i], state)
	}
	return err
}

// segmentsOf returns the locks of segments, whose keys are such as "sku#3": those of the given SKUs, or all if there
// are none. skus may also name such a key itself.
func segmentsOf(keys, skus []string) []string {
	keys = slices.DeleteFunc(keys, func(key string) bool {
		sku, _, of := strings.Cut(key, "#")
		return !of || len(skus) > 0 && !slices.Contains(skus, sku) && !slices.Contains(skus, key)
	})
	slices.Sort(keys)
	return keys
}

func lockEvictCommand(v voice) *cobra.Command {
	var url, token string
	cmd := &cobra.Command{
		Use:  "evict <strategy> <key>",
		Args: exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if token == "" {
				token = os.Getenv("STOCK_ADMIN_TOKEN")
			}
			e, err := askLock[struct {
				Fence   uint64
				Evicted *seenContender
				Stores  map[string]string
			}](cmd.Context(), v, http.MethodDelete, url, args[0], args[1], token)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if who := e.Evicted; who == nil {
				fmt.Fprintln(out, v.say("lock.nobody"))
			} else {
				key, pairs := "lock.evicted", []any{"who", v.orUnknown(who.Who), "fence", who.Fence}
				if held := forHow(who.since()); held != "" {
					key, pairs = "lock.evicted-after", append(pairs, "time", held)
				}
				fmt.Fprintln(out, phrases.Say(key, pairs...).In(string(v)))
			}
			fmt.Fprintln(out, v.say("lock.fence", "fence", e.Fence))
			for _, store := range slices.Sorted(maps.Keys(e.Stores)) {
				fmt.Fprintln(out, v.say("lock.store", "store", store, "said", e.Stores[store]))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:9090", "")
	cmd.Flags().StringVar(&token, "admin-token", "", "")
	return cmd
}

// forHow returns how long ago since is, or "".
func forHow(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return brief(time.Since(since))
}

// brief rounds a duration, for people.
func brief(d time.Duration) string {
	if d < 10*time.Second {
		return max(d, 0).Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (v voice) orUnknown(who string) string {
	if who == "" {
		return v.say("lock.no-name")
	}
	return who
}

// A seenContender is a contender of a lock, as an instance reports it.
type seenContender struct {
	Who         string   `json:"who"`
	SinceMS     *float64 `json:"since_ms"`
	RemainingMS float64  `json:"remaining_ms"`
	Fence       uint64   `json:"fence"`
}

// since is by this computer's clock, which may differ from that of the instance; zero: the instance does not know.
func (c seenContender) since() (at time.Time) {
	if c.SinceMS != nil {
		at = time.Now().Add(-time.Duration(*c.SinceMS * float64(time.Millisecond)))
	}
	return at
}

// askLock sends a request about a lock to an instance, at its address for operators: GET asks for its state, DELETE
// evicts its holder. It returns the decoded reply.
func askLock[T any](ctx context.Context, v voice, method, base, strategy, key, token string) (reply T, err error) {
	client, err := loadtest.NewClient(base, token, 0)
	if err != nil {
		return reply, err
	}
	defer client.Close()
	client.Speak(string(v))
	path := "/v1/locks/" + url.PathEscape(strategy) + "/" + url.PathEscape(key)
	err = client.Call(ctx, method, path, nil, &reply)
	if problem, is := errors.AsType[*loadtest.Problem](err); is && problem.Name() == "not_found" {
		return reply, failure("lock.no-operator", "why", err)
	}
	return reply, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/lock"
	"example.com/stock/strategy"
)

func lockListCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "ls [strategy] [key ...]",
		Short: "List who holds and who waits for which keys",
		Long: `List who holds and who waits for which keys: those given, or all that are held now under one strategy, or under any.

It asks the locks' servers; no "stock serve" need run. Requests that wait inside an instance share one place in the queue, which shows one of them. To see
all that wait in an instance, ask it, with --url; then strategy and keys must be given.

The lock of a segment is one of redis-watchdog with a key such as stock#3; "ls segmented" shows those alone, all of a SKU if its name is given.
Of mysql-table nobody can see who waits: they poll.`,
		Example: "  stock lock ls\n  stock lock ls zk-sequential\n" +
			"  stock lock ls redis-watchdog stock --url http://127.0.0.1:9090",
	}
	cmd.Flags().StringVar(&url, "url", "",
		"ask this instance, at its address for operators (--admin-addr), not the locks' servers")
	config := addServerFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list := standings{table: tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0), say: cmd.ErrOrStderr()}
		defer func() { _ = list.table.Flush() }()
		if url != "" {
			if len(args) < 2 {
				return errors.New("an instance must be told which strategy and which keys: stock lock ls <strategy> <key> ... --url " + url)
			}
			return list.end(list.ask(cmd.Context(), url, args[0], args[1:]))
		}
		cfg, _, err := loadConfig(config)
		if err != nil {
			return err
		}
		wanted := locks()
		if len(args) > 0 {
			s, err := strategy.Lookup(args[0])
			if err != nil || s.Around == nil {
				s, err = findLock(args[0])
			}
			if err != nil {
				return err
			}
			wanted, args = []strategy.Strategy{s}, args[1:]
		}
		a, err := openServers(cfg, toolLogger(cmd.ErrOrStderr(), cfg), wanted...)
		if err != nil {
			return err
		}
		defer func() { _ = a.close() }()
		return list.end(list.servers(cmd.Context(), a, wanted, args))
	}
	return cmd
}

// standings are printed as they come.
type standings struct {
	table *tabwriter.Writer
	say   io.Writer
	lines int
}

// end says so if there was nothing to print.
func (l *standings) end(err error) error {
	if err == nil && l.lines == 0 {
		fmt.Fprintln(l.say, "No lock is held.")
	}
	return err
}

func (l *standings) add(strategy, key string, s lock.State) {
	if s.Holder != nil {
		left := ""
		switch {
		case s.Holder.Remaining == lock.Forever:
			left = "for ever"
		case s.Holder.Remaining > 0:
			left = brief(s.Holder.Remaining)
		}
		l.line(strategy, key, "holds", *s.Holder, left)
	}
	for i, w := range s.Waiters {
		l.line(strategy, key, fmt.Sprint("waits ", i+1), w, "")
	}
}

func (l *standings) line(strategy, key, place string, c lock.Contender, left string) {
	if l.lines == 0 {
		fmt.Fprintln(l.table, "STRATEGY\tKEY\tPLACE\tWHO\tFOR\tLEFT\tFENCE")
	}
	l.lines++
	fence := ""
	if c.Fence != lock.NoFence {
		fence = fmt.Sprint(c.Fence)
	}
	fmt.Fprintf(l.table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", strategy, key, place, orUnknown(c.Who), forHow(&c.Since, ""), left, fence)
}

// ask asks an instance.
func (l *standings) ask(ctx context.Context, url, strategy string, keys []string) error {
	for _, key := range keys {
		reply, err := askLock[struct {
			seenStanding
			Segments []struct {
				Key string
				seenStanding
			}
		}](ctx, http.MethodGet, url, strategy, key, "")
		if err != nil {
			return err
		}
		l.add(strategy, key, reply.standing())
		for _, segment := range reply.Segments {
			l.add(strategy, segment.Key, segment.standing())
		}
	}
	return nil
}

// seenStanding is who has a key and who waits for it, as an instance tells.
type seenStanding struct {
	Holder  *seenContender
	Waiters []seenContender
}

func (s seenStanding) standing() (seen lock.State) {
	contender := func(c seenContender) lock.Contender {
		k := lock.Contender{Who: c.Who, Fence: lock.Fence(c.Fence), Remaining: time.Duration(c.RemainingMS * float64(time.Millisecond))}
		if c.Since != nil {
			k.Since = *c.Since
		}
		return k
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

// servers asks the locks' servers. One that cannot be asked is reported; it is an error if no other could be either.
func (l *standings) servers(ctx context.Context, a *app, wanted []strategy.Strategy, keys []string) error {
	var failed []error
	for _, s := range wanted {
		if err := l.one(ctx, a, s, keys); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	if len(failed) == len(wanted) {
		return exitError{exitDown, errors.Join(failed...)}
	}
	for _, err := range failed {
		fmt.Fprintln(l.say, "stock:", err)
	}
	return nil
}

func (l *standings) one(ctx context.Context, a *app, s strategy.Strategy, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
	defer cancel()
	locker, err := a.openLock(s)
	if err != nil {
		return err
	}
	lister, lists := locker.(lock.Lister)
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
	for _, key := range keys {
		standing, err := lock.Inspect(ctx, locker, key)
		if err != nil {
			return err
		}
		l.add(s.Name, key, standing)
	}
	return nil
}

// segmentsOf picks the locks of segments, which have keys such as "sku#3", of those SKUs, or of all. Such a key itself may be given, too.
func segmentsOf(keys, skus []string) []string {
	keys = slices.DeleteFunc(keys, func(key string) bool {
		sku, _, of := strings.Cut(key, "#")
		return !of || len(skus) > 0 && !slices.Contains(skus, sku) && !slices.Contains(skus, key)
	})
	slices.Sort(keys)
	return keys
}

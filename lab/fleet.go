package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// token lets the lab use lab mode on the instances that it starts. They listen on this computer only.
const token = "lab"

// A fleet has the servers, the instances and the proxies that scenarios use one after another.
type fleet struct {
	stack *stack.Stack

	round int // number of the current scenario

	mu         sync.Mutex
	sets       map[string][]*App // instances by their program and environment variables
	wanted     map[string]int    // the round in which each set was last wanted
	proxies    map[Need]*wire.Proxy
	strategies map[string]Strategy // by name; nil: not read yet
}

// baseEnv returns the environment variables of all instances of the lab. Limits are long unless a scenario sets them,
// so that the load of the computer does not decide a verdict.
func baseEnv() []string {
	return []string{
		"STOCK_LAB=true", "STOCK_ADMIN_TOKEN=" + token, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s", "STOCK_STOP=1s",
		"STOCK_WAIT=30s", "STOCK_WORK=20s", "STOCK_REDIS_TIMEOUT=10s",
		"STOCK_REDLOCK_QUARANTINE=-1s", "STOCK_REDLOCK_NODE_TIMEOUT=2s",
	}
}

// openFleet starts the servers. A server that is missing is no error.
func openFleet(ctx context.Context, o stack.Options, needs []Need) (*fleet, error) {
	for _, kind := range []struct {
		need  Need
		wants []server.Kind
	}{
		{NeedRedis, []server.Kind{server.Redis}},
		{NeedRedlock, slices.Repeat([]server.Kind{server.Redis}, 5)}, // after the Redis that is not a node
		{NeedZooKeeper, []server.Kind{server.ZooKeeper}},
		{NeedMySQL, []server.Kind{server.MySQL}},
	} {
		if slices.Contains(needs, kind.need) {
			o.Want = append(o.Want, kind.wants...)
		}
	}
	o.Env, o.AnyPort = append(baseEnv(), o.Env...), true
	s, err := stack.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if slices.Contains(needs, NeedGalera) {
		var missing *server.MissingError
		if _, err := s.StartGalera(ctx, nodes); err != nil && !errors.As(err, &missing) {
			return nil, errors.Join(err, s.Stop())
		}
	}
	return &fleet{
		stack: s, sets: make(map[string][]*App), wanted: make(map[string]int), proxies: make(map[Need]*wire.Proxy),
	}, nil
}

// close ends everything.
func (f *fleet) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var failed []error
	for _, set := range f.sets {
		for _, app := range set {
			failed = append(failed, app.Kill()) // a slow shutdown would save nothing
		}
	}
	for _, proxy := range f.proxies {
		failed = append(failed, proxy.Close())
	}
	return errors.Join(append(failed, f.stack.Stop())...)
}

// missing returns why a need cannot be met, or "" if it can. A stand-in for a server does not meet a need, because it
// proves nothing.
func (f *fleet) missing(need Need) string {
	if need == NeedClocks {
		if err := server.CheckClocks(); err != nil {
			return err.Error()
		}
		return ""
	}
	names := []string{string(need)}
	if need == NeedRedlock {
		names = nil
		for i := 2; i <= 6; i++ {
			names = append(names, fmt.Sprintf("%s-%d", server.Redis, i))
		}
	}
	missing := f.stack.Missing()
	for _, name := range names {
		if reason, ok := missing[name]; ok {
			return reason
		}
		if f.stack.Server(name) == nil {
			return "it was not started"
		}
	}
	return ""
}

// apps returns n instances of the demonstration with env added to baseEnv. It heals and reuses those of earlier
// scenarios with the same env.
func (f *fleet) apps(ctx context.Context, n int, env ...string) ([]*App, error) {
	return f.set(ctx, n, strings.Join(env, "\n"), newApp, func(n int) ([]*server.Server, error) {
		return f.stack.Serve(ctx, n, env...)
	})
}

// shops returns n instances of the order service, likewise.
func (f *fleet) shops(ctx context.Context, n int, env ...string) ([]*App, error) {
	return f.set(ctx, n, "orders\n"+strings.Join(env, "\n"), newShopApp, func(n int) ([]*server.Server, error) {
		return f.stack.Orders(ctx, n, env...)
	})
}

// set returns the first n instances of a set, and starts those that it lacks.
func (f *fleet) set(
	ctx context.Context, n int, key string, open func(*server.Server) (*App, error),
	start func(n int) ([]*server.Server, error),
) ([]*App, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted[key] = f.round
	if err := f.makeRoom(maxRunning); err != nil {
		return nil, err
	}
	if more := n - len(f.sets[key]); more > 0 {
		servers, err := start(more)
		if err != nil {
			return nil, err
		}
		for _, server := range servers {
			app, err := open(server)
			if err != nil {
				return nil, err
			}
			f.sets[key] = append(f.sets[key], app)
		}
	}
	list := slices.Clone(f.sets[key][:n])
	for _, app := range list {
		if err := app.heal(ctx); err != nil {
			return nil, err
		}
	}
	return list, f.ready(ctx, list)
}

// maxRunning is how many instances are kept for later scenarios. Each checks every server twice a second, so more would
// load the computer.
const maxRunning = 8

// alone ends the instances of earlier scenarios. Even an idle instance ends expired reservations, but a scenario must
// know which instance ends its own.
func (f *fleet) alone() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.makeRoom(0)
}

// makeRoom ends the least recently used instances until most are left, but none of the current scenario. They restart
// when a scenario uses them.
func (f *fleet) makeRoom(most int) error {
	keys := slices.SortedFunc(maps.Keys(f.sets), func(a, b string) int { return cmp.Compare(f.wanted[b], f.wanted[a]) })
	running := 0
	for _, key := range keys {
		for _, app := range f.sets[key] {
			if app.Pid() == 0 {
				continue
			}
			if running++; running <= most || f.wanted[key] == f.round {
				continue
			}
			if err := app.Kill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready waits until the instances report that every started server is up. This takes a moment after a freeze of an
// instance or of a server.
func (f *fleet) ready(ctx context.Context, apps []*App) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for _, app := range apps {
		if err := f.stack.AwaitReady(ctx, app.Server); err != nil {
			return err
		}
	}
	return nil
}

// catalogue returns the strategies of the service, by name.
func (f *fleet) catalogue(ctx context.Context) (map[string]Strategy, error) {
	if f.strategies != nil {
		return f.strategies, nil
	}
	apps, err := f.apps(ctx, 1)
	if err != nil {
		return nil, err
	}
	f.strategies, err = apps[0].strategies(ctx)
	return f.strategies, err
}

// proxy returns the proxy before the first server of that need, which speaks the protocol of Redis, ZooKeeper or MySQL.
// All scenarios share it.
func (f *fleet) proxy(need Need) (*wire.Proxy, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.proxies[need]; p != nil {
		return p, nil
	}
	backend := f.stack.Server(string(need))
	if backend == nil {
		return nil, fmt.Errorf("a proxy before %s: it was not started", need)
	}
	p, err := wire.Listen(backend.Addr, stack.Protocol(server.Kind(need)))
	if err == nil {
		f.proxies[need] = p
	}
	return p, err
}

// union returns every need once, in a fixed order. Redis is always included, because the first Redis server is not a
// node of Redlock.
func union(scenarios []Scenario) []Need {
	needs := []Need{NeedRedis}
	for _, s := range scenarios {
		needs = append(needs, s.Needs...)
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

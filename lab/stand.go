package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/stack"
	"example.com/stock/stack/wire"
)

// token lets the lab use lab mode on the instances that it starts; they listen on this computer only.
const token = "lab"

// A stand is servers, instances and proxies that scenarios use one after another.
type stand struct {
	stack *stack.Stack

	turn int // grows with every scenario

	mu      sync.Mutex
	sets    map[string][]*App // by their environment
	used    map[string]int    // the turn in which each set was last wanted
	proxies map[Need]*wire.Proxy
	offers  map[string]Strategy
}

// baseEnv is what all instances of the lab have in common. Times are long where a scenario does not mean them to end: a loaded computer
// must not decide what is seen.
func baseEnv() []string {
	return []string{
		"STOCK_LAB=true", "STOCK_ADMIN_TOKEN=" + token, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s", "STOCK_STOP=1s",
		"STOCK_WAIT=30s", "STOCK_WORK=20s", "STOCK_REDIS_TIMEOUT=10s",
		"STOCK_REDLOCK_QUARANTINE=-1s", "STOCK_REDLOCK_NODE_TIMEOUT=2s",
	}
}

// openStand starts the servers. What is missing is no error.
func openStand(ctx context.Context, o stack.Options, needs []Need) (*stand, error) {
	for _, kind := range []struct {
		need  Need
		wants []stack.Kind
	}{
		{NeedRedis, []stack.Kind{stack.Redis}},
		{NeedRedlock, slices.Repeat([]stack.Kind{stack.Redis}, 5)}, // after the one that is no node
		{NeedZooKeeper, []stack.Kind{stack.ZooKeeper}},
		{NeedMySQL, []stack.Kind{stack.MySQL}},
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
	return &stand{stack: s, sets: make(map[string][]*App), used: make(map[string]int), proxies: make(map[Need]*wire.Proxy)}, nil
}

// close ends everything.
func (s *stand) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed []error
	for _, set := range s.sets {
		for _, app := range set {
			app.client.Close()
			failed = append(failed, app.Kill()) // there is nothing in an instance of the lab that is worth a good-bye
		}
	}
	for _, proxy := range s.proxies {
		failed = append(failed, proxy.Close())
	}
	return errors.Join(append(failed, s.stack.Stop())...)
}

// missing is why a need cannot be met; empty: it can. A stand-in proves nothing.
func (s *stand) missing(need Need) string {
	names := []string{string(need)}
	if need == NeedRedlock {
		names = nil
		for i := 2; i <= 6; i++ {
			names = append(names, fmt.Sprintf("%s-%d", stack.Redis, i))
		}
	}
	missing := s.stack.Missing()
	for _, name := range names {
		if reason, ok := missing[name]; ok {
			return reason
		}
		if s.stack.Server(name) == nil {
			return "it was not started"
		}
	}
	return ""
}

// An App is an instance of the service, a process of its own in lab mode.
type App struct {
	*stack.Server
	client *loadtest.Client
	frozen bool
}

// apps are n instances with that environment on top of baseEnv: those of the last scenario that wanted the same, healed.
func (s *stand) apps(ctx context.Context, n int, env ...string) ([]*App, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.Join(env, "\n")
	s.used[key] = s.turn
	if err := s.makeRoom(); err != nil {
		return nil, err
	}
	if more := n - len(s.sets[key]); more > 0 {
		servers, err := s.stack.Serve(ctx, more, env...)
		if err != nil {
			return nil, err
		}
		for _, server := range servers {
			client, err := loadtest.NewClient(server.URL, token, 4)
			if err != nil {
				return nil, err
			}
			s.sets[key] = append(s.sets[key], &App{Server: server, client: client})
		}
	}
	list := slices.Clone(s.sets[key][:n])
	for _, app := range list {
		if err := app.heal(ctx); err != nil {
			return nil, err
		}
	}
	for _, app := range list {
		if err := s.ready(ctx, app); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ready waits until an instance says that every server that runs here is up: one that was frozen, or whose server was, takes a moment.
func (s *stand) ready(ctx context.Context, app *App) error {
	var last error
	for began := time.Now(); time.Since(began) < patience; {
		if last = app.backends(ctx, s.stack); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s is not ready: %w", app.Name, last)
}

// backends asks /readyz, and wants all that were started.
func (a *App) backends(ctx context.Context, from *stack.Stack) error {
	var reply struct {
		Backends map[string]struct {
			Up     bool
			Reason string
		}
	}
	if err := a.call(ctx, http.MethodGet, "/readyz", &reply); err != nil {
		return err
	}
	for name, b := range reply.Backends {
		if !b.Up && from.Server(name) != nil && from.Server(name).Pid() != 0 {
			return fmt.Errorf("%s: %s", name, b.Reason)
		}
	}
	return nil
}

// most is how many instances are kept running for scenarios to come: each asks every server how it is twice a second.
const most = 8

// makeRoom ends the instances that have not been wanted for longest, as many as are too many, but none of this turn. They start again if
// they are wanted again.
func (s *stand) makeRoom() error {
	keys := slices.SortedFunc(maps.Keys(s.sets), func(a, b string) int { return cmp.Compare(s.used[b], s.used[a]) })
	running := 0
	for _, key := range keys {
		for _, app := range s.sets[key] {
			if app.Pid() == 0 {
				continue
			}
			if running++; running <= most || s.used[key] == s.turn {
				continue
			}
			if err := app.Kill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal makes an instance that a scenario has frozen or killed serve again.
func (a *App) heal(ctx context.Context) error {
	if a.Pid() == 0 {
		a.frozen = false
		return a.Restart(ctx)
	}
	if !a.frozen {
		return nil
	}
	a.frozen = false
	return a.Resume()
}

// proxy stands before the first server of that need, for all scenarios.
func (s *stand) proxy(need Need) (*wire.Proxy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.proxies[need]; p != nil {
		return p, nil
	}
	protocol := map[Need]wire.Protocol{NeedRedis: wire.Redis(), NeedZooKeeper: wire.ZooKeeper(), NeedMySQL: wire.MySQL()}[need]
	server := s.stack.Server(string(need))
	if server == nil {
		return nil, fmt.Errorf("a proxy before %s: it was not started", need)
	}
	p, err := wire.Listen(server.Addr, protocol)
	if err == nil {
		s.proxies[need] = p
	}
	return p, err
}

// strategies is the catalogue of the service, by name.
func (s *stand) strategies(ctx context.Context) (map[string]Strategy, error) {
	if s.offers != nil {
		return s.offers, nil
	}
	apps, err := s.apps(ctx, 1)
	if err != nil {
		return nil, err
	}
	s.offers, err = catalogue(ctx, apps[0].URL)
	return s.offers, err
}

// env tells an instance to reach a server through its proxy.
func via(need Need, addr string) string {
	return map[Need]string{
		NeedRedis:     "STOCK_REDIS_ADDRS=" + addr,
		NeedZooKeeper: "STOCK_ZOOKEEPER_HOSTS=" + addr,
		NeedMySQL:     "STOCK_MYSQL_DSN=root@tcp(" + addr + ")/stock",
	}[need]
}

// union is every need once, in a fixed order. Redis is always there: of several that are wanted the first is the one that is no node.
func union(scenarios []Scenario) []Need {
	needs := []Need{NeedRedis}
	for _, s := range scenarios {
		needs = append(needs, s.Needs...)
	}
	slices.SortFunc(needs, func(a, b Need) int { return cmp.Compare(a, b) })
	return slices.Compact(needs)
}

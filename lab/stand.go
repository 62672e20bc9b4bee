package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

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
	if need == NeedClocks {
		if err := stack.CheckClocks(); err != nil {
			return err.Error()
		}
		return ""
	}
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

// via tells an instance to reach a server through its proxy.
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

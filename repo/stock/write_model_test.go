package stock

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/stock/lock/explore"
	"example.com/stock/lock/explore/pureredis"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// This file holds a model of sales that write with a fence, by the script of the store itself. Every holder may lose
// its lease at any moment, and the next one may begin: the lock is not modelled, only that its fences grow. So each
// write may come at any time after its read, behind and ahead of those of others. See lock/explore/README.md.

type writeModel struct {
	redis   *pureredis.Redis
	script  string
	swap    bool // with the version that was read, as sales with a fence do; otherwise blind
	clients int
	sales   int // of each, under one lease
	failed  error
}

type (
	writeState struct {
		keys    []pureredis.Key // never changed, only replaced
		leases  int             // so many were granted
		clients [3]writeClient
		slow    [3]service.Order // a write on its way, by client
		newest  uint64           // the largest fence that a write was accepted with
	}
	writeClient struct {
		fence uint64
		sales int
		has   bool // it has read
		read  service.Stock
	}
)

const (
	// One digit and then two: who compares fences as text takes 10 for less than 9.
	firstFence   = 9
	modelStock   = 3
	modelSKU     = service.SKU("k")
	modelStarted = uint64(1)
)

func (m *writeModel) model() explore.Model[writeState] {
	lanes := []string{}
	for i := range m.clients {
		lanes = append(lanes, "client "+strconv.Itoa(i+1))
	}
	names := saleKeys(modelSKU)
	first := writeState{keys: []pureredis.Key{
		{Name: names[0], Hash: []string{
			"epoch", "1", "fence", "0", "guard", "", "initial", "3", "quantity", "3", "sold", "0", "version", "1",
		}},
		{Name: names[1], List: []string{"1"}},
		{Name: names[2], Sorted: []string{"", "+Inf"}},
	}}
	return explore.Model[writeState]{
		Lanes: append(lanes, "store"), Init: []writeState{first}, Steps: m.steps, Key: m.key, MaxStates: 500_000,
		Check: func(s writeState) error { return m.failed },
	}
}

func (m *writeModel) steps(s writeState) (steps []explore.Step[writeState]) {
	for i := range m.clients {
		c := s.clients[i]
		add := func(to writeState, wrong error, notes ...explore.Note) {
			steps = append(steps, explore.Step[writeState]{To: to, Wrong: wrong, Notes: notes})
		}
		note := func(format string, args ...any) explore.Note {
			return explore.Note{Lane: i, Text: fmt.Sprintf(format, args...)}
		}
		if o := s.slow[i]; o.ID != "" {
			to := s
			to.slow[i] = service.Order{}
			text, wrong := m.write(&to, o)
			add(to, wrong, explore.Note{Lane: m.clients, Text: fmt.Sprintf("slow write of %d: %s", i+1, text)})
		}
		switch {
		case c.fence == 0:
			to := s
			to.clients[i].fence = firstFence + uint64(s.leases)
			to.leases++
			add(to, nil, note("has the lock, fence %d", to.clients[i].fence))
		case !c.has && c.sales < m.sales:
			to := s
			stock, err := readStock(s.keys)
			if err != nil {
				m.failed = err
			}
			to.clients[i].has, to.clients[i].read = true, stock
			add(to, nil, note("reads %d, version %d", stock.Quantity, stock.Version))
		case c.has && c.read.Quantity > 0:
			o := service.Order{
				ID: fmt.Sprintf("%d-%d", i, c.sales), SKU: modelSKU, Quantity: 1, Epoch: modelStarted, Strategy: "s",
				Read: c.read.Quantity, Remaining: c.read.Quantity - 1, Version: c.read.Version, Fence: c.fence,
				CreatedAt: pureredis.Epoch(),
			}
			to := s
			to.clients[i].has, to.clients[i].sales = false, c.sales+1
			to.clients[i].read = service.Stock{}
			late := to
			text, wrong := m.write(&to, o)
			add(to, wrong, note("writes %d", o.Remaining), explore.Note{Lane: m.clients, Text: text})
			if s.slow[i].ID == "" { // a write that never comes is one that is slow for ever
				late.slow[i] = o
				add(late, nil, note("writes %d, which is slow", o.Remaining))
			}
		}
	}
	return steps
}

// write runs the script, and holds what it did against what it must do.
func (m *writeModel) write(s *writeState, o service.Order) (text string, wrong error) {
	before, err := readStock(s.keys)
	if err != nil {
		m.failed = err
		return "", err
	}
	version := anyVersion
	if m.swap {
		version = sameVersion
	}
	var words []string
	for _, arg := range writeArgs(o, version) {
		words = append(words, fmt.Sprint(arg))
	}
	answer := m.redis.Eval(s.keys, m.script, saleKeys(o.SKU), words...)
	reply, _ := answer.Reply.([]any)
	after, err := readStock(answer.Keys)
	if answer.Err != nil || err != nil {
		m.failed = errors.Join(answer.Err, err)
		return "", m.failed
	}
	// Orders are not looked at, and would make every state another one.
	s.keys = slices.Clone(answer.Keys)
	for i := range s.keys {
		if s.keys[i].Name == repo.OrdersKey(modelSKU) {
			s.keys[i].List = s.keys[i].List[:1]
		}
	}
	refused := repo.Refusal("write", repo.StockKey(modelSKU), reply)
	current := !m.swap || o.Version == before.Version
	switch {
	case refused == nil && o.Fence < s.newest:
		wrong = fmt.Errorf("a write with fence %d is accepted behind one with %d", o.Fence, s.newest)
	case refused == nil && m.swap && before.Quantity != o.Read:
		wrong = fmt.Errorf("a lost update: the sale read %d, and wrote over %d", o.Read, before.Quantity)
	case refused == nil && m.swap && after.Quantity+after.Sold != modelStock:
		wrong = fmt.Errorf("%d are left and %d sold of %d", after.Quantity, after.Sold, modelStock)
	case errors.Is(refused, service.ErrStaleFence) && o.Fence >= s.newest:
		wrong = fmt.Errorf("a write with the newest fence is refused: %w", refused)
	case refused != nil && current && o.Fence >= s.newest:
		wrong = fmt.Errorf("a write is refused without a reason: %w", refused)
	case refused != nil && after != before:
		wrong = errors.New("a write that is refused changes the stock")
	}
	if refused != nil {
		return refused.Error(), wrong
	}
	s.newest = max(s.newest, o.Fence)
	return fmt.Sprintf("accepted: %d left", after.Quantity), wrong
}

// readStock reads as Redis.Read does.
func readStock(keys []pureredis.Key) (service.Stock, error) {
	k, _ := pureredis.Find(keys, repo.StockKey(modelSKU))
	f := repo.Fields{Key: k.Name}
	for _, name := range stockFields {
		for pair := range slices.Chunk(k.Hash, 2) {
			if pair[0] == name {
				f.Values = append(f.Values, pair[1])
			}
		}
	}
	stock := f.Stock(modelSKU)
	return stock, f.Err
}

func (m *writeModel) key(s writeState) string {
	var b strings.Builder
	for _, k := range s.keys {
		fmt.Fprintln(&b, k.Hash)
	}
	for i, c := range s.clients {
		o := s.slow[i]
		fmt.Fprintln(&b, c.fence, c.sales, c.has, c.read.Quantity, c.read.Version, o.Fence, o.Remaining, o.Version)
	}
	fmt.Fprint(&b, s.newest)
	return b.String()
}

func exploreWrites(t *testing.T, script string, swap bool, clients, sales int) explore.Result {
	t.Helper()
	server, err := pureredis.New()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	m := &writeModel{redis: server, script: script, swap: swap, clients: clients, sales: sales}
	result := explore.Explore(m.model())
	if m.failed != nil {
		t.Fatal(m.failed)
	}
	t.Logf("swap %v, %d clients, %d sales each: %v; %d scripts run", swap, clients, sales, result, server.Runs)
	return result
}

// Whatever the order of writes, none is accepted behind a larger fence, and none with the version that it read loses an
// update.
func TestWriteModel(t *testing.T) {
	for _, swap := range []bool{true, false} {
		for _, size := range [][2]int{{2, 2}, {3, 1}} {
			explore.Holds(t, exploreWrites(t, writeScript.Source, swap, size[0], size[1]))
		}
	}
}

// Every bug that is put back is found.
func TestWriteModelFindsBugs(t *testing.T) {
	for _, bug := range []struct {
		name, from, to string
		swap           bool
		want           string
	}{
		{"no fence check", "stale(ARGV[3], fence)", "false", false, "accepted behind"},
		{"an equal fence is refused", "less(fence, seen)", "not less(seen, fence)", false, "newest fence"},
		{
			"fences are compared as text", "#a < #b or (#a == #b and a < b)", "a < b", false,
			"",
		},
		{"the fence is not kept", "if less(fence, ARGV[3]) then", "if false then", false, "accepted behind"},
		{"no comparison", "(ARGV[10] ~= version or ARGV[13] ~= quantity)", "false", true, "lost update"},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			script := explore.PutBack(t, writeScript.Source, bug.from, bug.to)
			explore.Finds(t, exploreWrites(t, script, bug.swap, 2, 2), bug.want)
		})
	}
}

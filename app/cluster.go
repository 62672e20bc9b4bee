package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/app/health"
	"example.com/stock/handler"
	"example.com/stock/internal/words"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/rediserr"
	"example.com/stock/repo"
	"example.com/stock/service/strategy"
)

// slots is the number of slots of every Redis Cluster.
const slots = 16384

// A clusterCheck reads the view that every known node of a Redis Cluster has of the cluster, on its own connections.
// A PING would not be enough, because it succeeds while the cluster refuses keys.
//
// The cluster is up while at least one node reports cluster_state:ok, because a node that is cut off reports fail. If
// cluster-require-full-coverage is off, nodes report ok even while some slots are not served. Then SKUs in those
// slots cannot be sold, and the backend is up with a warning.
type clusterCheck struct {
	options redis.Options
	mu      sync.Mutex // close may run during a check
	seeds   []string
	nodes   map[string]*redis.Client // by address
}

func newClusterCheck(addrs []string, o redis.Options) *clusterCheck {
	c := &clusterCheck{options: o, seeds: addrs, nodes: make(map[string]*redis.Client)}
	c.learn(nil)
	return c
}

// A clusterView is what one node reports about the cluster.
type clusterView struct {
	ok      bool
	failed  string   // slots that no master serves, such as "0-5460"
	missing int      // number of failed slots
	addrs   []string // of all nodes
	own     int      // number of slots that this node serves
	first   int      // the first of them
	evicts  string   // its policy of eviction; "": none
	refuses error    // a driver.DownError: why the node refuses writes; nil: it accepts writes, or has no slots
}

func (c *clusterCheck) check(ctx context.Context) error {
	views, err := c.views(ctx)
	if err != nil {
		return err
	}
	best := views[0]
	for _, view := range views {
		if view.ok && !best.ok || view.ok == best.ok && view.missing < best.missing {
			best = view
		}
	}
	c.learn(best.addrs)
	refused, reason, policy := 0, error(nil), ""
	for _, view := range views {
		policy = cmp.Or(policy, view.evicts)
		if view.refuses != nil {
			refused += view.own
			reason = view.refuses
		}
	}
	switch {
	case !best.ok && best.missing > 0:
		return driver.NewDown(strategy.Redis, "cluster-slots",
			"missing", best.missing, "all", slots, "which", best.failed)
	case !best.ok:
		return driver.NewDown(strategy.Redis, "cluster-down")
	case refused > 0 && refused >= slots-best.missing:
		return reason
	case refused > 0:
		return &health.ImpairedError{
			Reason: fmt.Sprintf("%d of %d slots take no writes: %v", refused, slots, words.Of(reason, handler.Said)),
		}
	case best.missing > 0:
		return &health.ImpairedError{
			Reason: best.unserved() + ": SKUs in them cannot be sold (CLUSTER KEYSLOT stock:{sku} tells the slot " +
				"of one)",
		}
	}
	return evicts(policy)
}

// views returns what the nodes report that answer. If none does, it returns an error of one of them.
func (c *clusterCheck) views(ctx context.Context) (views []clusterView, err error) {
	// A node that hangs or is cut off must not delay the check of the others.
	each := health.Timeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		each = time.Until(deadline) / 2
	}
	ctx, cancel := context.WithTimeout(ctx, max(each, time.Millisecond))
	defer cancel()
	c.mu.Lock()
	nodes := c.nodes
	c.mu.Unlock()
	var (
		all sync.WaitGroup
		mu  sync.Mutex
	)
	for addr, node := range nodes {
		all.Go(func() {
			view, silent := viewOf(ctx, addr, node)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case silent == nil:
				views = append(views, view)
			case err == nil || isSlow(silent):
				err = silent // if any node is merely slow, the check counts as slow, which is not yet an outage
			}
		})
	}
	all.Wait()
	if len(views) > 0 {
		return views, nil
	}
	return nil, err
}

func (v clusterView) unserved() string {
	return fmt.Sprintf("%d of %d slots are not served (%s)", v.missing, slots, v.failed)
}

func isSlow(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// viewOf reads the view of one node, in one round trip. If the node serves slots, a second round trip tries a write
// that changes nothing.
func viewOf(ctx context.Context, addr string, node *redis.Client) (clusterView, error) {
	var info, nodes, memory *redis.StringCmd
	_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		info, nodes, memory = p.ClusterInfo(ctx), p.ClusterNodes(ctx), p.Info(ctx, "memory")
		return nil
	})
	if err := cmp.Or(info.Err(), nodes.Err()); err != nil {
		return clusterView{}, err
	}
	view := parseCluster(addr, info.Val(), nodes.Val())
	view.evicts = repo.EvictionPolicy(memory.Val()) // "" if the user may not ask
	if view.ok && view.own > 0 {
		err := node.SetXX(ctx, keyIn(view.first), "", 0).Err()
		if m, known := rediserr.Of(err); known && m.Outcome == rediserr.Refused {
			view.refuses = &driver.DownError{
				Server: strategy.Redis, Reason: m.Reason, Values: rediserr.Values(err), Full: m.Full,
				Denied: m.Denied(),
			}
		}
	}
	return view, nil
}

// keyIn returns an unused key in a slot. The slot of a key is the CRC16 of the text in its braces.
func keyIn(slot int) string {
	for n := 0; ; n++ {
		tag, crc := strconv.Itoa(n), uint16(0)
		for _, b := range []byte(tag) {
			crc ^= uint16(b) << 8
			for range 8 {
				high := crc&0x8000 != 0
				if crc <<= 1; high {
					crc ^= 0x1021
				}
			}
		}
		if int(crc)%slots == slot {
			return "stock:probe:{" + tag + "}"
		}
	}
}

// parseCluster parses CLUSTER INFO and CLUSTER NODES of the node at addr. See
// https://redis.io/docs/latest/commands/cluster-nodes/.
func parseCluster(addr, info, nodes string) clusterView {
	v := clusterView{ok: strings.Contains(info, "cluster_state:ok")}
	served := make([]bool, slots)
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line) // id, address, flags, master, ping, pong, epoch, link, slot...
		if len(fields) < 8 {
			continue
		}
		flags := strings.Split(fields[2], ",")
		if slices.Contains(flags, "noaddr") || slices.Contains(flags, "handshake") {
			continue
		}
		at, _, _ := strings.Cut(fields[1], "@")
		if host, port, err := net.SplitHostPort(at); err == nil && host == "" { // this node itself
			host, _, _ = net.SplitHostPort(addr)
			at = net.JoinHostPort(host, port)
		}
		v.addrs = append(v.addrs, at)
		if slices.Contains(flags, "fail") {
			continue
		}
		for _, slot := range fields[8:] {
			first, last, ok := parseSlots(slot)
			if !ok {
				continue
			}
			if slices.Contains(flags, "myself") {
				v.own, v.first = v.own+last-first+1, first
			}
			for s := first; s <= last; s++ {
				served[s] = true
			}
		}
	}
	v.failed, v.missing = failedSlots(served)
	return v
}

// parseSlots parses a slot or a range, such as 93 or 0-5460. ok is false for a migrating slot, such as [93-<-id], which
// its owner still serves.
func parseSlots(text string) (first, last int, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, bad := strconv.Atoi(from)
	last, worse := strconv.Atoi(to)
	return first, last, bad == nil && worse == nil && first >= 0 && last < slots
}

// failedSlots returns the ranges of slots that nobody serves, the first four at most, and the number of these slots.
func failedSlots(served []bool) (which string, missing int) {
	var ranges []string
	for s := 0; s < slots; s++ {
		if served[s] {
			continue
		}
		first := s
		for s+1 < slots && !served[s+1] {
			s++
		}
		missing += s - first + 1
		if first == s {
			ranges = append(ranges, strconv.Itoa(s))
		} else {
			ranges = append(ranges, fmt.Sprint(first, "-", s))
		}
	}
	const most = 4
	if len(ranges) > most {
		ranges = append(ranges[:most], "...")
	}
	return strings.Join(ranges, ", "), missing
}

// learn sets the known nodes to those of the configuration and addrs.
func (c *clusterCheck) learn(addrs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil {
		return // closed
	}
	nodes := make(map[string]*redis.Client)
	for _, addr := range slices.Concat(c.seeds, addrs) {
		if nodes[addr] != nil {
			continue
		}
		if nodes[addr] = c.nodes[addr]; nodes[addr] == nil {
			o := c.options
			o.Addr = addr
			nodes[addr] = redis.NewClient(&o)
		}
	}
	for addr, node := range c.nodes {
		if nodes[addr] == nil {
			_ = node.Close()
		}
	}
	c.nodes = nodes
}

func (c *clusterCheck) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, node := range c.nodes {
		errs = append(errs, node.Close())
	}
	c.nodes = nil
	return errors.Join(errs...)
}

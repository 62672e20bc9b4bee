package main

import (
	"fmt"
	"strings"
)

// A figure is a ratio with a target, measured within the rounds of one run.
type figure struct {
	Text    string  `json:"text"`
	Target  float64 `json:"target"`  // 0: none, it is told to explain the others
	AtMost  bool    `json:"at_most"` // the target is a ceiling, not a floor
	Got     float64 `json:"got"`
	Against string  `json:"against,omitempty"` // the strongest of the peers
	Missing bool    `json:"missing,omitempty"` // it could not be measured
}

func (f figure) reached() bool {
	if f.AtMost {
		return f.Got <= f.Target
	}
	return f.Got >= f.Target
}

// redisPeers are the locks with which throughput and p99 are compared.
func redisPeers() []string { return []string{nameRedislock, nameRedsync, nameRedsync1, nameSpin} }

// figures returns those of the specification of the locks, in its order.
func (r *results) figures() []figure {
	perTurn := func(o outcome) float64 { return 1 / max(o.Rate, 1e-9) }
	zkLocks := []string{nameZKLock, nameZKLock1}
	longer := fmt.Sprintf(", round trips %g ms longer", r.DelayMS)
	return []figure{
		r.against("redis-watchdog throughput / best of redislock, redsync, raw spin", 1.8, false, contended,
			nameWatchdog, redisPeers(), rate),
		r.against("redis-watchdog throughput / one client without a lock", 0.95, false, contended, nameWatchdog,
			[]string{nameLimit}, rate),
		r.against("redis-watchdog p99 / best of their p99", 0.1, true, contended, nameWatchdog, redisPeers(), p99),
		r.value("redis-watchdog, Jain index over all 30 contenders", 0.99, contended, nameWatchdog, fair),
		r.value("zk-sequential, Jain index over all 30 contenders", 0.99, contended, nameSequential, fair),
		r.against("zk-sequential throughput / go-zookeeper's Lock", 4.2, false,
			contended, nameSequential, zkLocks, rate),
		r.against("pessimistic (gorm) throughput / the same statements with database/sql", 0.8, false,
			contended, namePessimist, []string{nameBareSQL}, rate),
		r.against("atomic on MySQL (two packets) throughput / the same statements with database/sql", 0.95, false,
			contended, nameAtomic, []string{nameBareSQL}, rate),
		r.against("uncontended redis-watchdog time / redislock's", 1.05, true, single, nameWatchdog,
			[]string{nameRedislock}, perTurn),
		r.against("the same by the median turn, which other programs disturb less", 0, true, single, nameWatchdog,
			[]string{nameRedislock}, p50),
		r.against("uncontended redis-setnx time / redislock's", 1, true, single, nameSetNX,
			[]string{nameRedislock}, perTurn),
		r.against("uncontended time of the smallest scripts with fence and queue / redislock's", 0, true, single,
			nameSmallest, []string{nameRedislock}, perTurn),
		r.against("uncontended zk-sequential time / go-zookeeper's Lock", 0.91, true, single, nameSequential, zkLocks,
			perTurn),
		r.against("the same by the median turn", 0, true, single, nameSequential, zkLocks, p50),
		r.growth(),
		r.over(1000, nameWatchdog, nameRedislock, 0.9),
		// Without what watchdog does in the client: time limits, loss and renewal of a lease.
		r.over(1000, nameSmallest, nameRedislock, 0),
		r.against("redis-watchdog throughput / best of redislock, redsync, raw spin"+longer, 2.5, false,
			delayed, nameWatchdog, redisPeers(), rate),
		r.against("redis-watchdog throughput / one client without a lock"+longer, 0, false,
			delayed, nameWatchdog, []string{nameLimit}, rate),
		r.against("one client without a lock / best of redislock, redsync, raw spin: no lock can have more", 0, false,
			contended, nameLimit, redisPeers(), rate),
		r.against("one client without a lock / best of redislock, redsync, raw spin"+longer+": no lock can have more",
			0, false, delayed, nameLimit, redisPeers(), rate),
	}
}

// against compares with the strongest of some peers.
func (r *results) against(
	text string, target float64, atMost bool, table, name string, peers []string, of func(outcome) float64,
) figure {
	f := figure{Text: text, Target: target, AtMost: atMost, Missing: true}
	own := r.find(table, name, 1)
	for _, peer := range peers {
		got, ok := own.ratio(r.find(table, peer, 1), of)
		if ok && (f.Missing || (atMost && got > f.Got) || (!atMost && got < f.Got)) {
			f.Got, f.Against, f.Missing = got, peer, false
		}
	}
	return f
}

func (r *results) value(text string, target float64, table, name string, of func(outcome) float64) figure {
	f := figure{Text: text, Target: target, Missing: true}
	if own := r.find(table, name, 1); own != nil {
		got, ok := own.median(of)
		f.Got, f.Missing = got, !ok
	}
	return f
}

// growth returns the worst step from some keys to ten times as many. Equal rates differ by some per cent from run to
// run.
func (r *results) growth() figure {
	f := figure{
		Text: "redis-watchdog over 1, 10, 100, 1000 keys: throughput / with a tenth of the keys, worst step" +
			" (0.97 allows for noise)",
		Target: 0.97, Missing: true,
	}
	var steps []string
	for _, n := range []int{10, 100, 1000} {
		got, ok := r.find(keys, nameWatchdog, n).ratio(r.find(keys, nameWatchdog, n/10), rate)
		if !ok {
			continue
		}
		steps = append(steps, fmt.Sprintf("%.2f", got))
		if f.Missing || got < f.Got {
			f.Got, f.Missing = got, false
		}
	}
	f.Against = strings.Join(steps, ", ")
	return f
}

// over compares with one peer in the table of several numbers of keys.
func (r *results) over(n int, name, peer string, target float64) figure {
	f := figure{
		Text:   fmt.Sprintf("%s throughput / redislock's, over %d keys (table %s)", name, n, keys),
		Target: target, Against: peer,
	}
	got, ok := r.find(keys, name, n).ratio(r.find(keys, peer, n), rate)
	f.Got, f.Missing = got, !ok
	return f
}

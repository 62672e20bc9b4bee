package class

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lock/locktest/server"
)

// This file asks ZooKeeper for the session that holds the lock of a run, by its four-letter commands:
//
//	dump  the nodes of each session
//	cons  the time limit of each session, and the number of messages received on its connection
//
// A session lasts until its time limit after its latest message. The wall learns of a message by the change of the
// number, at most leaseEvery late.

var (
	sessionLine = regexp.MustCompile(`^(0x[0-9a-f]+):$`)
	connection  = regexp.MustCompile(`recved=(\d+),.*sid=(0x[0-9a-f]+),.*to=(\d+)`)
)

// askSession returns the session that holds the lock of a run. known is false if ZooKeeper has not answered.
func (c *Class) askSession(run int) (held heldLease, asked int, known bool) {
	zookeeper := c.stack.Server("zookeeper")
	if zookeeper == nil || c.stateOf("zookeeper") == "killed" {
		return held, run, false
	}
	ctx, cancel := context.WithTimeout(c.ctx, 4*time.Second)
	defer cancel()
	dump, err := server.ZooKeeperWord(ctx, zookeeper.Addr, "dump")
	if err != nil {
		return held, run, false
	}
	cons, err := server.ZooKeeperWord(ctx, zookeeper.Addr, "cons")
	if err != nil {
		return held, run, false
	}
	holder := holderOf(dump, skuOf(run))
	if holder == "" {
		return held, run, true
	}
	c.look(func(s *State) {
		for id, r := range s.open {
			if n := len(r.seen.Holds); n > 0 && r.seen.Holds[n-1].To == 0 {
				held.req = id
			}
		}
	})
	held.by, held.full = "zookeeper", c.o.scaled(session)
	c.lastSession.see(holder, cons, held.full)
	held.left, held.touched = c.lastSession.left(time.Now()), c.lastSession.messages
	return held, run, true
}

// holderOf returns the session with the first node of a lock: the nodes of a queue end with their number.
func holderOf(dump, sku string) (holder string) {
	current, first := "", ""
	for line := range strings.SplitSeq(dump, "\n") {
		line = strings.TrimSpace(line)
		if m := sessionLine.FindStringSubmatch(line); m != nil {
			current = m[1]
			continue
		}
		if !strings.Contains(line, "/"+sku+"/") && !strings.Contains(line, "/"+sku+"%ephemeral/") {
			continue
		}
		number := line[strings.LastIndexByte(line, '-')+1:]
		if holder == "" || number < first {
			holder, first = current, number
		}
	}
	return holder
}

// A sessionClock estimates the remaining time of a session from its messages.
type sessionClock struct {
	id       string
	messages uint64
	heard    time.Time // when the latest message was noticed
	limit    time.Duration
}

func (s *sessionClock) see(id, cons string, limit time.Duration) {
	if s.id != id {
		*s = sessionClock{id: id, heard: time.Now(), limit: limit}
	}
	messages, granted, ok := connectionOf(id, cons)
	if !ok {
		return
	}
	if messages != s.messages {
		s.messages, s.heard = messages, time.Now()
	}
	if granted > 0 {
		s.limit = granted
	}
}

// connectionOf returns the messages received from a session, and its time limit. A session without a connection is not
// in cons: ok is false.
func connectionOf(id, cons string) (messages uint64, limit time.Duration, ok bool) {
	for _, m := range connection.FindAllStringSubmatch(cons, -1) {
		if m[2] != id {
			continue
		}
		messages, err := strconv.ParseUint(m[1], 10, 64)
		ms, more := strconv.ParseUint(m[3], 10, 31) // as ZooKeeper: an int
		return messages, time.Duration(ms) * time.Millisecond, err == nil && more == nil
	}
	return 0, 0, false
}

func (s *sessionClock) left(now time.Time) time.Duration { return max(0, s.limit-now.Sub(s.heard)) }

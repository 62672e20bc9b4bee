package zklock

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/wire"
)

// refusal returns a trap's reply to a request: only the header, with an error.
func refusal(code int32) func([]byte) []byte {
	return func(request []byte) []byte {
		reply := binary.BigEndian.AppendUint32(nil, 4+8+4)
		reply = append(reply, request[4:8]...)          // xid
		reply = binary.BigEndian.AppendUint64(reply, 1) // transaction
		return binary.BigEndian.AppendUint32(reply, uint32(code))
	}
}

// is returns a match for the requests of one operation.
func is(operation uint32) func([]byte) bool {
	return func(m []byte) bool { return len(m) >= opAt+4 && binary.BigEndian.Uint32(m[opAt:]) == operation }
}

const (
	opSync  = 9
	opMulti = 14
	opAuth  = 100
	opAt    = 8 // the offset of the operation in a request: after its length and its xid
)

// afterGreeting matches every message of a client but the greeting.
func afterGreeting(m []byte) bool { return len(m) >= opAt && binary.BigEndian.Uint32(m[4:]) != 0 }

// A reply with any error is an answer: the create was not executed. So it is sent once, no node is searched for, and
// the caller gets the reason, or the code.
func TestARefusedCreateIsNotRepeated(t *testing.T) {
	t.Parallel()
	p := proxied(t, Servers.ZooKeeper(t))
	s := dial(t, p.Addr())
	l := NewSequential(s)
	locktest.Release(t, acquire(t, l)) // makes the folder and reads the record
	for code, want := range map[int32]string{
		-125:  "quota-exceeded (root=" + rootOf(t) + ")",
		-124:  "wants-authentication",
		-114:  "wants-authentication",
		-102:  "not-allowed (root=" + rootOf(t),
		-127:  "refuses (code=-127)",
		-6:    "refuses (code=-6)",
		-4242: "refuses (code=-4242)",
	} {
		before := p.Count(wire.ToServer)
		snare := p.Set(wire.Trap{Match: is(opMulti), Do: wire.Answer, Every: true, Answer: refusal(code)})
		saysDown(t, "acquire", refused(t, l, lock.Options{}), want)
		if sent, n := p.Count(wire.ToServer)-before, s.orphans.Load(); sent != 1 || n != 0 {
			t.Errorf("%d: %d requests, want 1; searches for %d nodes", code, sent, n)
		}
		snare.Release()
	}
}

// A server greets, and serves nothing: it demands an identity, does not accept ours, or closes each connection without
// a word. That is no connection. The log has one line of it in a minute, which names the credentials and no secret, and
// callers learn the reason.
func TestAServerThatOnlyGreets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		trap        wire.Trap
		credentials []string
		says, logs  string
	}{
		{wire.Trap{Match: afterGreeting, Do: wire.Cut}, nil, "no-session", "closes the connection"},
		{
			wire.Trap{Match: afterGreeting, Do: wire.Answer, Answer: refusal(-124)},
			nil,
			"wants-authentication", "demands authentication",
		},
		{ // as a server without the scheme digest does
			wire.Trap{Match: is(opAuth), Do: wire.Answer, Answer: refusal(-115)},
			[]string{ours},
			"wants-authentication", "does not accept credentials",
		},
	} {
		p := proxied(t, Servers.ZooKeeper(t))
		row.trap.Every = true
		deaf := p.Set(row.trap)
		var log logged
		began := time.Now()
		s := begin(t, Config{
			Hosts: []string{p.Addr()}, Credentials: row.credentials, Logger: log.logger(),
			ConnectTimeout: time.Second,
		})
		locktest.Eventually(t, row.logs, func() bool { return strings.Contains(log.String(), row.logs) })
		_, err := NewSequential(s).Acquire(t.Context(), key, lock.Options{})
		saysDown(t, row.logs, err, row.says)
		if s.isConnected() {
			t.Errorf("%s: connected to a server that has answered no request", row.logs)
		}
		onceAMinute(t, began, log.String())
		deaf.Release()
		locktest.Release(t, acquire(t, NewSequential(s)))
	}
}

// onceAMinute checks that the log warns once of what hinders us, naming the credentials, and at most once more for each
// minute.
func onceAMinute(t *testing.T, began time.Time, log string) {
	t.Helper()
	most, warned := 1+int(time.Since(began)/time.Minute), 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, "session suspended") {
			continue
		}
		if warned++; !strings.Contains(line, "credentials") || strings.Contains(line, "secret") {
			t.Errorf("the log does not name credentials, or tells a secret: %s", line)
		}
	}
	if warned < 1 || warned > most {
		t.Errorf("%d lines, want 1 to %d:\n%s", warned, most, log)
	}
}

// While maxOrphans nodes are still to be deleted, no other node is created.
func TestOrphansAreLimited(t *testing.T) {
	t.Parallel()
	p := proxied(t, Servers.ZooKeeper(t))
	s := dial(t, p.Addr())
	for _, k := range kinds {
		l := k.open(s)
		locktest.Release(t, acquire(t, l))
		before := p.Count(wire.ToServer)
		s.orphans.Store(maxOrphans - 1)
		locktest.Release(t, acquire(t, l))
		s.orphans.Store(maxOrphans)
		saysDown(t, k.name, refused(t, l, lock.Options{}), "cleaning-up")
		if sent := p.Count(wire.ToServer) - before; sent != 2 {
			t.Errorf("%s: %d requests, want a create and a delete", k.name, sent)
		}
		s.orphans.Store(0)
	}
}

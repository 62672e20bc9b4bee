package zklock

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

// Refusal returns a trap's reply to a request: only the header, with an error.
func Refusal(code int32) func([]byte) []byte {
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
	opAt    = 8 // the offset of the operation in a request: after its length and its xid
)

// A reply with any error is an answer: the create was not executed. So it is sent once, no node is searched for, and
// the caller gets the code.
func TestARefusedCreateIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		code int32
		want string
	}{
		{-125, "quota-exceeded (root=" + rootOf(t) + ")"},
		{-124, "wants-authentication"},
		{-114, "wants-authentication"},
		{-102, "not-allowed (root=" + rootOf(t)},
		{-127, "refuses (code=-127)"},
		{-6, "refuses (code=-6)"},
		{-4242, "refuses (code=-4242)"},
	} {
		for _, k := range kinds {
			p := proxied(t, Servers.ZooKeeper(t))
			s := dial(t, p.Addr())
			l := k.open(s)
			release(t, acquire(t, l)) // makes the folder and reads the record
			before := p.Count(wire.ToServer)
			snare := p.Set(wire.Trap{Match: is(opMulti), Do: wire.Answer, Every: true, Answer: Refusal(row.code)})
			saysDown(t, k.name, refused(t, l, lock.Options{}), row.want)
			if sent, n := p.Count(wire.ToServer)-before, s.orphans.Load(); sent != 1 || n != 0 {
				t.Errorf("%s, %d: %d requests, want 1; searches for %d nodes", k.name, row.code, sent, n)
			}
			snare.Release()
			release(t, acquire(t, l))
		}
	}
}

// started starts a server of the test's own with these lines in its configuration.
func started(t *testing.T, lines ...string) *server.Server {
	t.Helper()
	server, err := servertest.Start(t, server.Options{
		More: map[server.Kind][]string{server.ZooKeeper: lines},
	}).Add(t.Context(), server.ZooKeeper)
	servertest.Started(t, err)
	return server
}

// A server enforces a quota on the folders of locks: callers learn that it is the quota, and nothing is searched for.
func TestAQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	host := started(t, "enforceQuota=true").Addr
	s, c := dial(t, host), raw(t, host, "")
	release(t, acquire(t, NewSequential(s)))
	for _, node := range [][2]string{
		{"", ""},
		{"/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1"},
		{"/zookeeper_stats", ""},
	} {
		_, err := c.Create("/zookeeper/quota"+rootOf(t)+node[0], []byte(node[1]), 0, zk.WorldACL(zk.PermAll))
		must(t, err)
	}
	for _, k := range kinds {
		saysDown(t, k.name, refused(t, k.open(s), lock.Options{}), "quota-exceeded")
	}
	if n := s.orphans.Load(); n != 0 {
		t.Errorf("searches for %d nodes", n)
	}
}

// A server that demands authentication greets a client without credentials and closes the connection at its first
// request. That is no connection: the log has one line of it, which names the credentials, and callers learn the
// reason.
func TestAServerThatDemandsAuthentication(t *testing.T) {
	t.Parallel()
	host := started(t, "enforce.auth.enabled=true", "enforce.auth.schemes=digest").Addr
	release(t, acquire(t, NewSequential(open(t, Config{Hosts: []string{host}, Credentials: []string{ours}}))))
	var log logged
	began := time.Now()
	s := begin(t, Config{Hosts: []string{host}, Logger: log.logger()})
	eventually(t, "the reason", func() bool { return s.noConnection() == errNoIdentity && log.String() != "" })
	saysDown(t, "acquire", refused(t, NewSequential(s), lock.Options{}), "wants-authentication")
	onceAMinute(t, began, log.String())
}

// A server greets, and closes each connection at the first request, without a word. The pauses between the connections
// grow although it greets; see TestPausesBetweenServers.
func TestAServerThatGreetsAndCloses(t *testing.T) {
	t.Parallel()
	p := proxied(t, Servers.ZooKeeper(t))
	request := func(m []byte) bool { return len(m) >= 8 && binary.BigEndian.Uint32(m[4:]) != 0 } // no greeting
	closed := p.Set(wire.Trap{Match: request, Do: wire.Cut, Every: true})
	var log logged
	began := time.Now()
	s := begin(t, Config{Hosts: []string{p.Addr()}, Logger: log.logger()})
	r := s.current.Load().route
	eventually(t, "six tries", func() bool { return r.failed.Load() >= 6 })
	if s.isConnected() {
		t.Error("connected to a server that has answered no request")
	}
	onceAMinute(t, began, log.String())
	closed.Release()
	release(t, acquire(t, NewSequential(s)))
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
		if warned++; !strings.Contains(line, "credentials") {
			t.Errorf("the log does not name credentials: %s", line)
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
		release(t, acquire(t, l))
		before := p.Count(wire.ToServer)
		s.orphans.Store(maxOrphans - 1)
		release(t, acquire(t, l))
		s.orphans.Store(maxOrphans)
		saysDown(t, k.name, refused(t, l, lock.Options{}), "cleaning-up")
		if sent := p.Count(wire.ToServer) - before; sent != 2 {
			t.Errorf("%s: %d requests, want a create and a delete", k.name, sent)
		}
		s.orphans.Store(0)
	}
}

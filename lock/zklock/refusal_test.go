package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
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

// isOperation returns a match for the requests of one operation.
func isOperation(code int32) func([]byte) bool {
	return func(m []byte) bool { return len(m) >= opAt+4 && int32(binary.BigEndian.Uint32(m[opAt:])) == code }
}

const opMulti = 14

// A reply with any error is an answer: the create was not executed. So it is sent once, no node is searched for, and
// the caller gets the code.
func TestARefusedCreateIsNotRepeated(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
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
		for _, k := range kinds() {
			p := newProxy(t, host)
			s := dial(t, p.Addr())
			l := k.open(s)
			release(t, acquire(t, l)) // makes the folder and reads the record
			before := p.requests()
			snare := p.Set(wire.Trap{
				Match: isOperation(opMulti), Do: wire.Answer, Every: true, Rewrite: Refusal(row.code),
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, err := l.Acquire(ctx, keyOf(t), lock.Options{})
			cancel()
			var down *lock.DownError
			if !errors.As(err, &down) || !strings.HasPrefix(lock.Coded(down.Reason, down.Values), row.want) {
				t.Errorf("%s, %d: %v, want %s", k.name, row.code, err, row.want)
			}
			if sent := p.requests() - before; sent != 1 {
				t.Errorf("%s, %d: %d requests, want 1", k.name, row.code, sent)
			}
			if left := s.orphans.list(); len(left) != 0 {
				t.Errorf("%s, %d: searches for %d nodes", k.name, row.code, len(left))
			}
			snare.Release()
			release(t, acquire(t, l))
		}
	}
}

// A server enforces a quota on the folders of locks: callers learn that it is the quota, and nothing is searched for.
func TestAQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	server, err := stacktest.Start(t, stack.Options{
		More: map[stack.Kind][]string{stack.ZooKeeper: {"enforceQuota=true"}},
	}).Add(t.Context(), stack.ZooKeeper)
	stacktest.Started(t, err)
	c := raw(t, server.Addr)
	s := open(t, Config{Hosts: []string{server.Addr}})
	for _, k := range kinds() {
		release(t, acquire(t, k.open(s)))
	}
	quota := "/zookeeper/quota" + rootOf(t)
	for _, node := range [][2]string{
		{"", ""},
		{"/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1"},
		{"/zookeeper_stats", ""},
	} {
		_, err := c.Create(quota+node[0], []byte(node[1]), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		must(t, err)
	}
	for _, k := range kinds() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := k.open(s).Acquire(ctx, keyOf(t), lock.Options{})
		cancel()
		var down *lock.DownError
		if !errors.As(err, &down) || down.Reason != "quota-exceeded" {
			t.Errorf("%s: %v, want quota-exceeded", k.name, err)
		}
	}
	if left := s.orphans.list(); len(left) != 0 {
		t.Errorf("searches for %d nodes", len(left))
	}
}

// A server that demands authentication greets a client without credentials and closes the connection at its first
// request. That is no connection: the log has one line of it, which names the credentials, and callers learn the
// reason.
func TestAServerThatDemandsAuthentication(t *testing.T) {
	t.Parallel()
	server, err := stacktest.Start(t, stack.Options{
		More: map[stack.Kind][]string{stack.ZooKeeper: {"enforce.auth.enabled=true", "enforce.auth.schemes=digest"}},
	}).Add(t.Context(), stack.ZooKeeper)
	stacktest.Started(t, err)
	known := open(t, Config{Hosts: []string{server.Addr}, Credentials: []string{ours}})
	release(t, acquire(t, NewSequential(known)))
	var log logged
	began := time.Now()
	s, err := Dial(Config{Hosts: []string{server.Addr}, Root: rootOf(t), Logger: log.logger()})
	must(t, err)
	defer s.Close()
	eventually(t, "the reason", func() bool {
		_, err := NewSequential(s).Acquire(t.Context(), keyOf(t), lock.Options{})
		var down *lock.DownError
		return errors.As(err, &down) && down.Reason == "wants-authentication" && log.String() != ""
	})
	onceAMinute(t, began, log.String())
}

// A server greets, and closes each connection at the first request, without a word.
func TestAServerThatGreetsAndCloses(t *testing.T) {
	t.Parallel()
	p := newProxy(t, Servers.ZooKeeper(t))
	greetings := make(chan bool, 6)
	p.Set(wire.Trap{On: wire.ToClient, Match: func([]byte) bool {
		select {
		case greetings <- true:
		default:
		}
		return false // never springs
	}})
	closed := p.Set(wire.Trap{Match: isRequest, Do: wire.Cut, Every: true})
	var log logged
	began := time.Now()
	s, err := Dial(Config{Hosts: []string{p.Addr()}, Root: rootOf(t), Logger: log.logger()})
	must(t, err)
	defer s.Close()
	for range cap(greetings) {
		<-greetings
	}
	if s.State() == Connected {
		t.Error("connected to a server that has answered no request")
	}
	onceAMinute(t, began, log.String())
	closed.Release()
	connected(t, s)
	release(t, acquire(t, NewSequential(s)))
}

// onceAMinute checks that the log has one line that names the credentials, and at most one more for each minute.
func onceAMinute(t *testing.T, began time.Time, log string) {
	t.Helper()
	lines := strings.Count(log, "\n")
	most := 1 + int(time.Since(began)/time.Minute)
	if lines < 1 || lines > most || strings.Count(log, "zookeeper.credentials") != lines {
		t.Errorf("the log, want one line that names zookeeper.credentials:\n%s", log)
	}
}

// While maxOrphans nodes are still to be deleted, no other node is created.
func TestOrphansAreLimited(t *testing.T) {
	t.Parallel()
	p := newProxy(t, Servers.ZooKeeper(t))
	s := dial(t, p.Addr())
	for _, k := range kinds() {
		l := k.open(s)
		release(t, acquire(t, l))
		before := p.requests()
		for limit, want := range map[int]bool{maxOrphans - 1: true, maxOrphans: false} {
			s.orphans.mu.Lock()
			s.orphans.all = make([]orphan, limit) // nobody searches for them, because nothing was added
			s.orphans.mu.Unlock()
			lease, err := l.Acquire(t.Context(), keyOf(t), lock.Options{})
			var down *lock.DownError
			switch {
			case want && err != nil, !want && (!errors.As(err, &down) || down.Reason != "cleaning-up"):
				t.Errorf("%s: with %d orphans: %v", k.name, limit, err)
			case want:
				release(t, lease)
			}
		}
		if sent := p.requests() - before; sent != 2 {
			t.Errorf("%s: %d requests, want a create and a delete", k.name, sent)
		}
		s.orphans.mu.Lock()
		s.orphans.all = nil
		s.orphans.mu.Unlock()
	}
}

// isRequest reports whether a message of a client is not its greeting, which begins with the version, 0.
func isRequest(m []byte) bool { return len(m) >= 8 && binary.BigEndian.Uint32(m[4:]) != 0 }

package class

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// said is what ZooKeeper 3.8.0 replied to a command while a scene ran: "held" and "taken" are of the scene herd, before
// and between two holders of its node, "queue" is of the scene of that name.
func said(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "zookeeper-3.8.0", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHolderOf(t *testing.T) {
	queue := said(t, "queue.dump")
	cut := queue[:strings.Index(queue, "_c_")]
	for _, row := range []struct{ what, dump, sku, want string }{
		{"one session has the node", said(t, "held.dump"), "run-1", "0x100005d74ee0002"},
		{"a session without a node is listed first", said(t, "taken.dump"), "run-1", "0x100005d74ee0001"},
		{"the smallest number is in the second of three lists", queue, "run-2", "0x100005d74ee0001"},
		{"a run whose number begins the same", said(t, "held.dump"), "run-11", ""},
		{"a run whose number is the beginning", strings.ReplaceAll(queue, "run-2", "run-21"), "run-2", ""},
		{"an earlier run", queue, "run-1", ""},
		{"no session has a node", "Sessions with Ephemerals (0):\n", "run-1", ""},
		{"the command is not allowed", "dump is not executed because it is not in the whitelist.\n", "run-1", ""},
		{"the reply ends within the first node", cut, "run-2", "0x100005d74ee0002"},
		{"no reply", "", "run-1", ""},
	} {
		if got := holderOf(row.dump, row.sku); got != row.want {
			t.Errorf("%s: %q, want %q", row.what, got, row.want)
		}
	}
}

func TestConnectionOf(t *testing.T) {
	held := said(t, "held.cons")
	for _, row := range []struct {
		what, id, cons string
		messages       uint64
		limit          time.Duration
		ok             bool
	}{
		{"one of three", "0x100005d74ee0002", said(t, "taken.cons"), 109, 4 * time.Second, true},
		{"another of three", "0x100005d74ee0000", said(t, "taken.cons"), 126, 4 * time.Second, true},
		{"among connections without a session", "0x100005d74ee0001", said(t, "queue.cons"), 270, 4 * time.Second, true},
		{"it has no connection", "0x100005d74ee0009", held, 0, 0, false},
		{"the beginning of an id", "0x100005d74ee000", held, 0, 0, false},
		{"a limit beyond an int", "0x1", " /1[1](queued=0,recved=1,sent=1,sid=0x1,to=99999999999)", 1, 0, false},
		{"no reply", "0x100005d74ee0001", "", 0, 0, false},
	} {
		messages, limit, ok := connectionOf(row.id, row.cons)
		if ok != row.ok || ok && (messages != row.messages || limit != row.limit) {
			t.Errorf("%s: %d %s %v, want %d %s %v", row.what, messages, limit, ok, row.messages, row.limit, row.ok)
		}
	}
}

// A session lasts until its limit after its latest message. Messages of others do not renew it, and a session whose
// connection is lost runs out.
func TestSessionClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = "0x100005d74ee0002"
		cons := said(t, "taken.cons")
		var clock sessionClock
		for _, row := range []struct {
			what, id, cons string
			want           time.Duration
		}{
			{"at first", id, cons, 4 * time.Second},
			{"no message", id, cons, 3 * time.Second},
			{"messages of another", id, strings.Replace(cons, "recved=114", "recved=115", 1), 2 * time.Second},
			{"a message", id, strings.Replace(cons, "recved=109", "recved=110", 1), 4 * time.Second},
			{"its connection is lost", id, strings.Replace(cons, id, "0x9", 1), 3 * time.Second},
			{"another holder", "0x100005d74ee0001", cons, 4 * time.Second},
		} {
			clock.see(row.id, row.cons, time.Hour)
			if got := clock.left(time.Now()); got != row.want {
				t.Errorf("%s: %s left, want %s", row.what, got, row.want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		if got := clock.left(time.Now()); got != 0 {
			t.Errorf("after its end: %s left", got)
		}
	})
}

// The holder of a queue is found wherever its node is listed. Replies of any other form are read without a panic, and
// name no session that is not in them.
func FuzzSessionWords(f *testing.F) {
	for _, name := range []string{"held", "taken", "queue"} {
		f.Add(said(f, name+".dump"), said(f, name+".cons"), uint64(len(name)))
	}
	f.Add("0x1:\n/run-1/-", "recved=1,sid=0x1,to=1", uint64(1)) // a node without a number
	f.Fuzz(func(t *testing.T, dump, cons string, seed uint64) {
		if holder := holderOf(dump, "run-1"); !strings.Contains(dump, holder) {
			t.Errorf("%q is not in %q", holder, dump)
		}
		if _, limit, ok := connectionOf("0x1", cons); ok && (!strings.Contains(cons, "sid=0x1") || limit < 0) {
			t.Errorf("limit %s, of %q", limit, cons)
		}
		r := rand.New(rand.NewPCG(seed, seed))
		nodes := r.Perm(1 + r.IntN(30))
		want, text := "", ""
		for len(nodes) > 0 {
			id, n := fmt.Sprintf("0x%x", r.Uint64()), 1+r.IntN(len(nodes))
			text += id + ":\n\t/stock/locks/other/_c_x-lock-0000000000\n"
			for _, node := range nodes[:n] {
				text += fmt.Sprintf("\t/stock/locks/run-1/_c_%x-lock-%010d\n", r.Uint32(), node+7)
				if node == 0 {
					want = id
				}
			}
			nodes = nodes[n:]
		}
		if got := holderOf(text, "run-1"); got != want {
			t.Errorf("%s, want %s, of\n%s", got, want, text)
		}
	})
}

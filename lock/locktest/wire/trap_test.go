package wire_test

import (
	"testing"

	"example.com/stock/lock/locktest/wire"
)

func TestALostRequestAndALostReply(t *testing.T) {
	for _, row := range []struct {
		what  string
		trap  wire.Trap
		heard string // by the server
		said  string // by the client that is told B?
	}{
		{"request, by number", wire.Trap{Skip: 1, Do: wire.Cut}, "a", "cut"},
		{"request, by content", wire.Trap{Match: wire.Contains("B"), Do: wire.Cut}, "a", "cut"},
		{"reply, of the request", wire.Trap{Skip: 1, Do: wire.CutReply}, "a b", "cut"},
		{"reply, by content", wire.Trap{On: wire.ToClient, Match: wire.Contains("b"), Do: wire.Cut}, "a b", "cut"},
		{"nothing", wire.Trap{Match: wire.Contains("x"), Do: wire.Cut}, "a b", "B"},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := serve(t)
			p := open(t, s.listener.Addr().String(), lines())
			snare := p.Set(row.trap)
			c := dial(t, p)
			c.say("a")
			expect(t, "before", c.hear(limit), "A")
			c.say("b")
			expect(t, "then", c.hear(limit), row.said)
			expect(t, "the server", s.saw(), row.heard)
			select {
			case <-snare.Sprung():
			default:
				if row.said == "cut" {
					t.Error("the trap has not sprung")
				}
			}
			c = dial(t, p)
			c.say("c")
			expect(t, "a new connection", c.hear(limit), "C")
		})
	}
}

func TestOneRequestOrReplyIsHeld(t *testing.T) {
	for _, row := range []struct {
		what  string
		do    wire.Action
		heard string
	}{
		{"request", wire.Hold, "a"},
		{"reply", wire.HoldReply, "a b"},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := serve(t)
			p := open(t, s.listener.Addr().String(), lines())
			snare := p.Set(wire.Trap{Skip: 1, Do: row.do})
			c, other := dial(t, p), dial(t, p)
			c.say("a")
			expect(t, "before", c.hear(limit), "A")
			c.say("b")
			<-snare.Sprung()
			expect(t, "held", c.hear(moment), "silence")
			expect(t, "the server", s.saw(), row.heard)
			other.say("x")
			expect(t, "another connection", other.hear(limit), "X")
			snare.Release()
			expect(t, "released", c.hear(limit), "B")
		})
	}
}

// A client that died while its request was held back has not sent it, unless it is released.
func TestWhatIsHeldIsLostWithACut(t *testing.T) {
	s := serve(t)
	p := open(t, s.listener.Addr().String(), lines())
	snare := p.Set(wire.Trap{Do: wire.Hold})
	c := dial(t, p)
	c.say("a")
	<-snare.Sprung()
	c.Close()
	p.Cut()
	snare.Release()
	c = dial(t, p)
	c.say("b")
	expect(t, "afterwards", c.hear(limit), "B")
	expect(t, "the server", s.saw(), "b")
}

func TestRequestsAreAnsweredForTheServer(t *testing.T) {
	s := serve(t)
	p := open(t, s.listener.Addr().String(), lines())
	snare := p.Set(wire.Trap{
		Match: wire.Contains("b"), Do: wire.Answer, Every: true, Answer: func([]byte) []byte { return []byte("no\n") },
	})
	c := dial(t, p)
	for _, row := range [][2]string{{"a", "A"}, {"b", "no"}, {"bb", "no"}, {"c", "C"}} {
		c.say(row[0])
		expect(t, row[0], c.hear(limit), row[1])
	}
	<-snare.Sprung()
	snare.Release()
	c.say("b")
	expect(t, "released", c.hear(limit), "B")
	expect(t, "the server", s.saw(), "a c b")
}

package class

import "testing"

// A reply that was replayed is no sale, whoever says so first, the instance or the reply.
func TestAReplayedReplyIsNoSale(t *testing.T) {
	sale := RunEvent{From: "app-1", Kind: "ended", Outcome: accepted, Epoch: 5, Version: 7, Read: 3, Remaining: 2}
	first, again := sale, sale
	first.Seq, first.Req = 1, "r1.1"
	again.Seq, again.Req, again.Replayed = 2, "r1.2", true
	reply := RunEvent{From: class, Kind: answered, Run: 1, Req: "r1.2", Outcome: accepted, Replayed: true}
	for _, events := range [][]RunEvent{{first, again}, {first, reply}, {first, reply, again}, {again, first}} {
		s := NewState()
		for _, e := range events {
			s.Apply(e)
		}
		if v := s.Verdict(); v.Collisions != 0 || s.token("r1.1").Twin || s.token("r1.2").Twin {
			t.Errorf("%+v: %+v", events, v)
		}
		if it := s.token("r1.2"); !it.Replayed || it.Phase != "done" || it.Wrote != nil {
			t.Errorf("%+v", it)
		}
	}
}

// Steps that an instance has forgotten are counted, whatever has come before. Those that come twice are not told twice.
func TestMissedStepsAreCounted(t *testing.T) {
	s := NewState()
	var told []RunEvent
	src := stepsOfApp("app-1", "", "", func(e RunEvent) { told = append(told, e); s.Apply(e) })
	for _, text := range []string{
		`{"boot":1,"steps":[{"number":3,"at_us":1,"kind":"waits","request_id":"r1.1"}]}`,
		`{"boot":1,"steps":[{"number":3,"at_us":1,"kind":"waits","request_id":"r1.1"},
			{"number":4,"at_us":2,"kind":"read","request_id":"r1.1"},
			{"number":9,"at_us":3,"kind":"ended","request_id":"r1.1","outcome":"accepted","replayed":true}]}`,
		`{"boot":2,"steps":[{"number":1,"at_us":4,"kind":"waits","request_id":"r1.2"}]}`,
	} {
		if err := src.Message([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if v := s.Verdict(); v.Dropped != 2+4 {
		t.Errorf("%+v, want 6 steps missed", v)
	}
	if len(told) != 6 || !told[4].Replayed {
		t.Errorf("%+v", told)
	}
}

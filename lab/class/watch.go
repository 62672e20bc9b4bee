package class

import "example.com/stock/lab"

// stepsOfApp reads the steps of an instance as events, until the class ends. Fault records that an instance is dead or
// frozen.
func stepsOfApp(name, admin, token string, tell func(RunEvent)) *lab.Steps {
	return &lab.Steps{Admin: admin, Token: token, Tell: func(boot int64, missed uint64, s *lab.Step) {
		e := RunEvent{At: s.AtUS, From: name, Boot: boot}
		if missed > 0 {
			lost := e
			lost.Seq, lost.Kind, lost.Count, lost.Run = s.Number-1, gap, missed, runOf(s.RequestID)
			tell(lost)
		}
		e.Seq, e.Kind, e.Req, e.SKU = s.Number, s.Kind, s.RequestID, s.SKU
		e.Read, e.Remaining, e.Version, e.Epoch, e.Segment = s.Read, s.Remaining, s.Version, s.Epoch, s.Segment
		e.Fence, e.Point, e.Outcome, e.Replayed = s.Fence, s.Point, s.Outcome, s.Replayed
		e.Batch = s.Batch
		tell(e)
	}}
}

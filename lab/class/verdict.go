package class

import "example.com/stock/loadtest"

// A WallVerdict says whether a run has lost updates or oversold.
type WallVerdict struct {
	Code       string `json:"code"` // none yet, selling, kept, race, unknown
	Known      bool   `json:"known"`
	Initial    int64  `json:"initial"`
	Written    int64  `json:"written"`
	Truth      int64  `json:"truth"` // initial minus sold
	Sold       int64  `json:"sold"`
	Oversold   int64  `json:"oversold"`
	Lost       int64  `json:"lost"`       // units sold and not deducted
	Collisions int    `json:"collisions"` // orders based on the same version as another order
	Open       int    `json:"open"`       // requests without a reply
	Dropped    uint64 `json:"dropped"`    // steps lost in transit
}

// Verdict returns the verdict of a load's judge, or else that derived from the stock.
func (s *State) Verdict() WallVerdict {
	v := WallVerdict{Open: s.sums().unanswered, Collisions: s.sums().collisions}
	for _, n := range s.dropped {
		v.Dropped += n
	}
	s.compare(&v)
	if j := s.judged(); j != nil {
		v.Oversold, v.Lost, v.Open = j.OversoldUnits, j.LostUnits, 0
		switch {
		case j.RaceSeen || j.Finding == loadtest.Broken:
			v.Code = "race"
		case j.Finding == loadtest.Holds:
			v.Code = "kept"
		default:
			v.Code = "unknown"
		}
	}
	return v
}

// shownVerdict returns the verdict for a page, with the texts of a load's judge if there is one.
func (s *State) shownVerdict() any {
	j := s.judged()
	if j == nil {
		return s.Verdict()
	}
	return struct {
		WallVerdict
		Said map[string]string `json:"said"` // replaces the wall's texts
	}{s.Verdict(), both(j.Sentence)}
}

// judged returns the verdict of a load's judge, or nil.
func (s *State) judged() *loadtest.Verdict { return s.ofRun[judged].judge }

// compare compares the stock with the orders. While the store cannot be read, its last reading counts.
func (s *State) compare(v *WallVerdict) {
	if stock := s.known.Stock; stock != nil {
		v.Initial, v.Written, v.Sold = stock.Initial, stock.Written, stock.Sold
	}
	last := s.ofRun[stockSeen]
	v.Known = last.Stock != nil && last.Stock.Known
	v.Truth = v.Initial - v.Sold
	v.Oversold = max(0, v.Sold-v.Initial)
	v.Lost = v.Written + v.Sold - v.Initial
	if last.counted {
		v.Lost = max(0, v.Lost) // the reply to a written sale may not have arrived
	}
	over := s.has(allFired) && v.Open == 0
	settled := s.ofRun[allFired].Seq < last.Seq
	switch {
	case s.run == 0:
		v.Code = "idle"
	case v.Oversold > 0 || v.Lost != 0 && v.Known, last.counted && v.Collisions > 0:
		v.Code = "race"
	case !over || !settled:
		v.Code = "selling"
	case !v.Known:
		v.Code = "unknown"
	default:
		v.Code = "kept"
	}
}

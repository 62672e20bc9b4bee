package checkout

import (
	"time"

	"example.com/stock/loadtest"
)

// Figures count what happened.
type Figures struct {
	Attempts int             `json:"attempts"`
	Requests int             `json:"requests"`
	Outcomes map[Outcome]int `json:"outcomes"` // of the attempts
	Problems map[string]int  `json:"problems"` // problems in the replies of refused attempts
	Cut      int             `json:"cut"`      // replies that were lost on purpose
	Replayed int             `json:"replayed"` // replies that repeated the first one
	// requests that were refused while an earlier attempt was in progress, which then succeeded
	Revised      int            `json:"revised"`
	Orders       int            `json:"orders"`
	Reservations int            `json:"reservations"`
	Late         int            `json:"late"` // orders of reservations that had expired
	Movements    int            `json:"movements"`
	Events       int            `json:"events"`
	Repeats      int            `json:"repeats"` // events that came again
	Kinds        map[string]int `json:"kinds"`   // movements of the run's customers, one for each line
	Seconds      float64        `json:"seconds"` // from the first request to the last reply
	Ways         []WayFigures   `json:"ways"`
	Latency      []OpLatency    `json:"latency"`
	SweptMS      Swept          `json:"swept"`
}

// WayFigures count the visits of one way.
type WayFigures struct {
	Way     Way `json:"way"`
	Visits  int `json:"visits"`
	Whole   int `json:"whole"`   // visits in which every request succeeded
	Refused int `json:"refused"` // visits in which a request was refused
}

// OpLatency has the latencies of one operation, without lost replies.
type OpLatency struct {
	Op Op `json:"op"`
	loadtest.Quantiles
}

// Swept has the times from the expiry of reservations until their units were for sale again, by the store's clock.
type Swept struct {
	Count  int     `json:"count"`
	MeanMS float64 `json:"mean_ms"`
	MaxMS  float64 `json:"max_ms"`
}

// Measure counts what happened in a run.
func Measure(r *Result) Figures {
	e := &r.Evidence
	f := Figures{
		Attempts: len(e.Records), Outcomes: make(map[Outcome]int), Problems: make(map[string]int),
		Kinds: make(map[string]int),
	}
	requests := make(map[int]*Record) // of each, the last successful attempt, or else the last one
	refused := make(map[int]bool)
	expires := make(map[string]time.Time)
	perOp := make(map[Op][]loadtest.Record)
	var first, last time.Time
	for i := range e.Records {
		c := &e.Records[i]
		if first.IsZero() || c.SentAt.Before(first) {
			first = c.SentAt
		}
		if c.DoneAt.After(last) {
			last = c.DoneAt
		}
		f.Outcomes[c.Outcome]++
		if c.Problem != "" {
			f.Problems[c.Problem]++
		}
		if c.Cut {
			f.Cut++
		}
		if c.Replayed {
			f.Replayed++
		}
		if c.Settling && c.Replayed && refused[c.Request] {
			f.Revised++
		}
		refused[c.Request] = refused[c.Request] || c.Outcome == Refused
		if c.Got != nil && c.Got.ExpiresAt.After(expires[c.Got.ReservationID]) {
			expires[c.Got.ReservationID] = c.Got.ExpiresAt
		}
		if was := requests[c.Request]; was == nil || was.Outcome != Done {
			if c.Outcome == Done && c.Op == OpReserve {
				f.Reservations++
			}
			if c.Outcome == Done && (c.Op == OpPlace || c.Op == OpConfirm) {
				f.Orders++
				if c.Got != nil && c.Got.Late {
					f.Late++
				}
			}
			requests[c.Request] = c
		}
		if !c.Cut && c.Status != 0 {
			perOp[c.Op] = append(perOp[c.Op], loadtest.Record{
				SentAt: c.SentAt, DoneAt: c.DoneAt, Reply: loadtest.Reply{Outcome: loadtest.Accepted},
			})
		}
	}
	f.Requests = len(requests)
	if len(e.Records) > 0 {
		f.Seconds = last.Sub(first).Seconds()
	}
	f.Ways = waysOf(requests)
	for _, op := range Ops() {
		if list := perOp[op]; len(list) > 0 {
			f.Latency = append(f.Latency, OpLatency{op, loadtest.Measure(list).All})
		}
	}
	f.books(e, expires)
	return f
}

// waysOf counts the visits. A visit with a request of unknown outcome is neither whole nor refused.
func waysOf(requests map[int]*Record) []WayFigures {
	type visit struct {
		way           Way
		done, refused int
		all           int
	}
	visits := make(map[int]*visit)
	for _, c := range requests {
		v := visits[c.Visit]
		if v == nil {
			v = &visit{way: c.Way}
			visits[c.Visit] = v
		}
		v.all++
		switch c.Outcome {
		case Done:
			v.done++
		case Refused:
			v.refused++
		}
	}
	byWay := make(map[Way]*WayFigures)
	list := make([]WayFigures, 0, len(Ways()))
	for _, way := range Ways() {
		list = append(list, WayFigures{Way: way})
	}
	for i := range list {
		byWay[list[i].Way] = &list[i]
	}
	for _, v := range visits {
		w := byWay[v.way]
		if w == nil {
			continue
		}
		w.Visits++
		switch {
		case v.refused > 0:
			w.Refused++
		case v.done == v.all:
			w.Whole++
		}
	}
	return list
}

func (f *Figures) books(e *Evidence, expires map[string]time.Time) {
	var sum time.Duration
	for i := range e.Books {
		b := &e.Books[i]
		f.Movements += len(b.Movements)
		seen := make(map[string]bool, len(b.Events))
		for k := range b.Events {
			if seen[b.Events[k].ID] {
				f.Repeats++
				continue
			}
			seen[b.Events[k].ID] = true
			f.Events++
		}
		for k := range b.Movements {
			m := &b.Movements[k]
			if !ours(m.Customer, e.Run) {
				continue
			}
			f.Kinds[m.Kind]++
			if until := expires[m.Ref]; m.Kind == "expire" && !until.IsZero() {
				late := m.At.Sub(until)
				sum += late
				f.SweptMS.Count++
				f.SweptMS.MaxMS = max(f.SweptMS.MaxMS, float64(late)/float64(time.Millisecond))
			}
		}
	}
	if f.SweptMS.Count > 0 {
		f.SweptMS.MeanMS = float64(sum) / float64(time.Millisecond) / float64(f.SweptMS.Count)
	}
}

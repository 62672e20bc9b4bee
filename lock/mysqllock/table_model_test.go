package mysqllock

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/explore"
)

// This file holds a model of Table: one row, and clients whose statements and answers are late or lost. When a lease
// is over, when its renewal is due, and whether a late grant counts are decided by lock.Keep, with the settings of
// Table, and by Table.stale. SQL cannot run in a model: tmRules.do tells the conditions of the statements again, and
// TestTableModelDoesWhatTheServerDoes puts the same rows to both. The loop of Acquire is told again, too. See
// docs/exploration.md.

const (
	tmLease   = 3 * time.Second
	tmMaxHold = 5 * time.Second
	tmPast    = -time.Second             // of a time limit: that it is over is all that matters
	tmOld     = -(tmLease + time.Second) // of a fence: older than any grant that still counts
	tmSlow    = 990 * time.Millisecond   // what a client's clock shows of a second
	tmAhead   = 2 * time.Second          // by so much the last client's clock is ahead of the server's
)

type tmStatement uint8

const (
	tmAcquire tmStatement = iota
	tmInsert
	tmRenew
	tmRelease
)

// tmRow is the row as the server sees it now: times and fences are distances from its clock.
type tmRow struct {
	exists bool
	token  string
	left   time.Duration // until expires_at
	fence  time.Duration // ahead of the clock; a fence is a number of microseconds
}

type tmRules struct {
	free   func(row tmRow, ahead time.Duration) bool // may be taken, asked by a client whose clock is ahead
	ours   func(of tmStatement, row tmRow, token string) bool
	fence  func(last time.Duration) time.Duration
	sent   func(asked time.Duration) time.Duration // how long ago the term began, if the client asked so long ago
	stale  func(took time.Duration) bool
	valid  func(k lock.Keep, t lock.Term, now time.Time) bool
	keep   lock.Keep
	reads  bool // a waiter looks whether the row is still there
	tokens bool // a try after one that was undone has a token of its own
}

func realTable() tmRules {
	table := &Table{o: TableOptions{Lease: tmLease, MaxHold: tmMaxHold}}
	return tmRules{
		free:  func(row tmRow, _ time.Duration) bool { return row.left <= 0 },
		ours:  func(_ tmStatement, row tmRow, token string) bool { return row.token == token },
		fence: func(last time.Duration) time.Duration { return max(last+fenceDistance*time.Microsecond, 0) },
		sent:  func(asked time.Duration) time.Duration { return asked },
		valid: func(k lock.Keep, t lock.Term, now time.Time) bool { return k.Over(t, now) == nil },
		stale: table.stale, keep: table.keep(), reads: true, tokens: true,
	}
}

// do is what a statement does to the row, and whether it changes one.
func (r *tmRules) do(st tmStatement, row tmRow, token string, ahead time.Duration) (after tmRow, done bool) {
	switch {
	case st == tmInsert && !row.exists:
		return tmRow{true, token, tmLease, 0}, true
	case st == tmInsert || !row.exists:
	case st == tmAcquire && r.free(row, ahead):
		return tmRow{true, token, tmLease, r.fence(row.fence)}, true
	case st == tmRenew && r.ours(st, row, token) && row.left > 0:
		row.left = tmLease
		return row, true
	case st == tmRelease && r.ours(st, row, token):
		row.token, row.left = "", tmPast
		return row, true
	}
	return row, false
}

// tmBounds says how much may happen. silent is how many requests or answers are lost or overtaken, removals how often
// the row is deleted.
type tmBounds struct{ clients, turns, silent, crashes, removals, late int }

type tmPhase uint8

const (
	tmIdle tmPhase = iota
	tmWaiting
	tmAsking // for the row: acquireRow, or insertRow
	tmHolding
	tmRenewing // holds, and has asked for another lease
	tmOver     // crashed
)

type tmAnswer uint8

const (
	tmOnItsWay tmAnswer = iota // the request; the others are answers on their way
	tmDone
	tmRefused
	tmNoSuchRow
)

type tmClient struct {
	phase  tmPhase
	turn   int
	try    int  // of the turn: a token belongs to it
	seen   bool // the row: it was there at the last reading
	st     tmStatement
	answer tmAnswer
	asked  time.Duration // ago, by its own clock
	fence  time.Duration // that was granted, ahead of the server's clock
	term   lock.Term
}

// tmRequest is on its way to the server although nobody waits for its answer. A release is sent again and again.
type tmRequest struct {
	st    tmStatement
	token string
	from  int
}

type tmState struct {
	row     tmRow
	newest  time.Duration // the largest fence of a holder, ahead of the server's clock
	clients [3]tmClient
	wild    []tmRequest // never changed in place

	silent, crashes, removals, late int
}

type tmModel struct {
	rules  tmRules
	bounds tmBounds
}

func tmNow() time.Time { return time.Unix(1_000_000, 0) }

func tmName(i int) string { return "client " + strconv.Itoa(i+1) }

func (m *tmModel) token(i int, c tmClient) string {
	token := "c" + strconv.Itoa(i+1) + ":" + strconv.Itoa(c.turn)
	if m.rules.tokens && c.try > 0 {
		token += "." + strconv.Itoa(c.try)
	}
	return token
}

func (m *tmModel) ahead(i int) time.Duration {
	if i == m.bounds.clients-1 {
		return tmAhead
	}
	return 0
}

func (m *tmModel) model() explore.Model[tmState] {
	var lanes []string
	for i := range m.bounds.clients {
		lanes = append(lanes, tmName(i))
	}
	b := m.bounds
	return explore.Model[tmState]{
		Lanes: append(lanes, "server"),
		Init: []tmState{{
			newest: tmPast, silent: b.silent, crashes: b.crashes, removals: b.removals, late: b.late,
		}},
		Steps: m.steps, Key: m.key, Check: m.check, Settled: m.settled, MaxStates: 500_000,
		// What is left behind runs out; a request that comes later takes the row once more.
		Patience: time.Duration(b.crashes+b.silent) * tmLease,
	}
}

func (m *tmModel) steps(s tmState) (steps []explore.Step[tmState]) {
	calm := true
	add := func(urgent bool, to tmState, wrong error, notes ...explore.Note) {
		steps = append(steps, explore.Step[tmState]{To: m.tidy(to), Wrong: wrong, Notes: notes, Calm: urgent})
		calm = calm && !urgent
	}
	server := func(text string) explore.Note { return explore.Note{Lane: m.bounds.clients, Text: text} }
	for n, request := range s.wild {
		to := s
		var done bool
		to.row, done = m.rules.do(request.st, s.row, request.token, m.ahead(request.from))
		if request.st != tmRelease || done {
			to.wild = slices.Delete(slices.Clone(s.wild), n, n+1)
			add(true, to, nil, server("what was slow arrives: "+verb(request.st, request.token, done)))
		}
	}
	for i := range m.bounds.clients {
		c := s.clients[i]
		note := func(text string) explore.Note { return explore.Note{Lane: i, Text: text} }
		switch {
		case c.phase == tmOver:
			continue
		case c.phase == tmIdle && c.turn < m.bounds.turns:
			to := s
			to.clients[i] = tmClient{phase: tmWaiting, turn: c.turn + 1}
			add(false, to, nil, note("wants the key"))
		case c.phase == tmWaiting:
			// It polls. That is a step if it tells it something new.
			if m.tells(s, i) {
				to := s
				to.clients[i].phase, to.clients[i].st = tmAsking, tmAcquire
				add(true, to, nil, note("asks"))
			}
		case c.phase == tmHolding:
			over := m.rules.keep.Over(c.term, tmNow()) != nil
			text := "releases"
			if over {
				text = "notices that its lease is over"
			} else if !tmNow().Before(c.term.Next) {
				to := s
				to.clients[i].phase, to.clients[i].st = tmRenewing, tmRenew
				add(false, to, nil, note("asks for another lease"))
			}
			to := s
			to.row, _ = m.rules.do(tmRelease, s.row, m.token(i, c), m.ahead(i))
			to.clients[i] = tmClient{turn: c.turn}
			add(true, to, nil, note(text), server(held(to.row)))
			if s.silent > 0 {
				to := s
				to.silent--
				to.send(tmRequest{tmRelease, m.token(i, c), i})
				to.clients[i] = tmClient{turn: c.turn}
				add(false, to, nil, note(text+": the request is slow"))
			}
		}
		if c.phase == tmAsking || c.phase == tmRenewing {
			if c.answer == tmOnItsWay {
				to := s
				text := m.handle(&to, i)
				heard := to
				said, wrong := m.hear(&heard, i)
				add(true, heard, wrong, note(said), server(text))
				if s.silent > 0 {
					to.silent--
					add(false, to, nil, server(text+", the answer is slow"))

					slow := s
					slow.silent--
					slow.send(tmRequest{c.st, m.token(i, c), i})
					said := m.doubt(&slow, i)
					add(false, slow, nil, note(said), server("the request is slow"))
				}
			} else {
				to := s
				said, wrong := m.hear(&to, i)
				add(true, to, wrong, note(said))
				lost := s
				said = m.doubt(&lost, i)
				add(false, lost, nil, note(said))
			}
		}
		if s.crashes > 0 && c.phase != tmIdle {
			to := s
			to.crashes--
			to.clients[i] = tmClient{phase: tmOver, turn: c.turn}
			to.wild = slices.DeleteFunc(slices.Clone(s.wild), func(r tmRequest) bool {
				return r.st == tmRelease && r.from == i // nobody sends it again
			})
			add(false, to, nil, note("crashes"))
		}
	}
	if s.removals > 0 && s.row.exists && s.row.left <= 0 && s.row.fence < 0 {
		to := s
		to.removals--
		to.row = tmRow{}
		add(false, to, nil, server("deletes the row"))
	}
	to := s
	if m.pass(&to); !m.idle(s) {
		if to.late--; to.late < 0 {
			return steps
		}
	}
	return append(steps, explore.Step[tmState]{To: m.tidy(to), Takes: time.Second, Calm: calm && m.settled(s) != nil})
}

func verb(st tmStatement, token string, done bool) string {
	if !done {
		return "changes nothing"
	}
	return [...]string{"takes the row for ", "inserts the row for ", "renews ", "frees the row of "}[st] + token
}

func held(row tmRow) string {
	switch {
	case !row.exists:
		return "there is no row"
	case row.token == "":
		return "the row is free"
	}
	return "the row is " + row.token + "'s"
}

// tells reports whether a waiter learns something when it asks. One that has seen the row and does not read it again
// learns only that it is free.
func (m *tmModel) tells(s tmState, i int) bool {
	c := s.clients[i]
	if !s.row.exists {
		return m.rules.reads || !c.seen
	}
	return !c.seen || m.rules.free(s.row, m.ahead(i))
}

func (s *tmState) send(r tmRequest) { s.wild = append(slices.Clone(s.wild), r) }

// handle lets the request of a client come to the server.
func (m *tmModel) handle(s *tmState, i int) (text string) {
	c := &s.clients[i]
	var done bool
	existed := s.row.exists
	s.row, done = m.rules.do(c.st, s.row, m.token(i, *c), m.ahead(i))
	switch c.answer = tmRefused; {
	case done:
		c.answer, c.fence = tmDone, s.row.fence
	case c.st == tmAcquire && !existed: // selectRow finds nothing
		c.answer = tmNoSuchRow
	}
	return verb(c.st, m.token(i, *c), done)
}

// hear lets an answer come to its client.
func (m *tmModel) hear(s *tmState, i int) (text string, wrong error) {
	c := &s.clients[i]
	answer := c.answer
	sent := tmNow().Add(-m.rules.sent(c.asked))
	switch {
	case c.phase == tmRenewing && answer == tmDone:
		c.term = m.rules.keep.Renewed(c.term, sent)
		c.hold()
		return "holds on", nil
	case c.phase == tmRenewing:
		s.send(tmRequest{tmRelease, m.token(i, *c), i})
		*c = tmClient{turn: c.turn}
		return "has lost the key", nil
	case answer == tmDone && m.rules.stale(m.rules.sent(c.asked)):
		s.send(tmRequest{tmRelease, m.token(i, *c), i})
		*c = tmClient{phase: tmWaiting, turn: c.turn, try: c.try + 1, seen: true}
		return "is granted it too late, undoes that", nil
	case answer == tmDone:
		if c.fence <= s.newest {
			wrong = errors.New("the new holder's fence is not larger than that of an earlier one")
		}
		s.newest = max(s.newest, c.fence)
		c.term = m.rules.keep.Begin(sent)
		c.hold()
		return "holds", wrong
	case answer == tmNoSuchRow:
		c.st, c.answer = tmInsert, tmOnItsWay // asked goes on: it counts from before the first statement
		return "sees no row, inserts it", nil
	}
	*c = tmClient{phase: tmWaiting, turn: c.turn, try: c.try, seen: true}
	return "waits", nil
}

func (c *tmClient) hold() { c.phase, c.st, c.answer, c.asked, c.fence = tmHolding, 0, 0, 0, 0 }

// doubt lets a client act on a request whose outcome it does not know: it renews again, or undoes what it has asked
// for and fails.
func (m *tmModel) doubt(s *tmState, i int) (text string) {
	c := &s.clients[i]
	if c.phase == tmRenewing {
		c.term.Next = tmNow().Add(m.rules.keep.Every / 10)
		c.hold()
		return "hears nothing, will ask again"
	}
	s.send(tmRequest{tmRelease, m.token(i, *c), i})
	*c = tmClient{turn: c.turn}
	return "hears nothing, undoes it and fails"
}

// tidy drops what changes nothing any more: the release of a token that nothing can write into the row, and how old
// the newest fence is while no grant is on its way.
func (m *tmModel) tidy(s tmState) tmState {
	if !slices.ContainsFunc(s.clients[:], func(c tmClient) bool { return c.phase == tmAsking && c.answer == tmDone }) {
		s.newest = max(s.newest, tmPast)
	}
	useless := func(r tmRequest) bool {
		return r.st == tmRelease && !m.rules.ours(tmRelease, s.row, r.token) &&
			!slices.ContainsFunc(s.wild, func(o tmRequest) bool { return o.token == r.token && o.st != tmRelease })
	}
	if slices.ContainsFunc(s.wild, useless) {
		s.wild = slices.DeleteFunc(slices.Clone(s.wild), useless)
	}
	return s
}

// pass lets a second pass.
func (m *tmModel) pass(s *tmState) {
	if s.row.exists {
		s.row.left = max(s.row.left-time.Second, tmPast)
		s.row.fence = max(s.row.fence-time.Second, tmPast)
	}
	s.newest = max(s.newest-time.Second, 2*tmOld)
	now := tmNow()
	for i := range s.clients {
		c := &s.clients[i]
		if c.phase == tmAsking || c.phase == tmRenewing {
			c.asked += tmSlow
			c.fence = max(c.fence-time.Second, tmOld)
		}
		if c.phase == tmHolding || c.phase == tmRenewing {
			c.term.Sent = latest(c.term.Sent.Add(-tmSlow), now.Add(-tmMaxHold))
			c.term.Until = latest(c.term.Until.Add(-tmSlow), now.Add(-tmMaxHold))
			c.term.Next = latest(c.term.Next.Add(-tmSlow), now)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// idle reports whether nobody has anything to do, so that time passes without somebody's pause.
func (m *tmModel) idle(s tmState) bool {
	for i, c := range s.clients[:m.bounds.clients] {
		switch {
		case c.phase == tmAsking || c.phase == tmRenewing, c.phase == tmWaiting && m.tells(s, i):
			return false
		case c.phase == tmHolding && (!tmNow().Before(c.term.Next) || m.rules.keep.Over(c.term, tmNow()) != nil):
			return false
		}
	}
	return true
}

func (m *tmModel) check(s tmState) error {
	holder := ""
	for i, c := range s.clients {
		if c.phase != tmHolding && c.phase != tmRenewing || !m.rules.valid(m.rules.keep, c.term, tmNow()) {
			continue
		}
		if holder != "" {
			return fmt.Errorf("%s and %s both hold a lease that is valid by their own clock", holder, tmName(i))
		}
		holder = tmName(i)
	}
	return nil
}

func (m *tmModel) settled(s tmState) error {
	for i, c := range s.clients {
		if c.phase != tmIdle && c.phase != tmOver {
			return fmt.Errorf("%s is forgotten", tmName(i))
		}
	}
	return nil
}

func (m *tmModel) key(s tmState) string {
	b := make([]byte, 0, 160)
	num := func(n time.Duration) { b = append(strconv.AppendInt(b, int64(n/time.Microsecond), 36), ' ') }
	b = append(b, s.row.token...)
	b = append(b, byte('0'+s.silent), byte('0'+s.crashes), byte('0'+s.removals), byte('0'+s.late), ' ')
	if s.row.exists {
		num(s.row.left)
		num(s.row.fence)
	}
	b = append(b, '|')
	num(s.newest)
	for _, c := range s.clients[:m.bounds.clients] {
		b = append(b, ';', byte('0'+c.phase), byte('0'+c.turn), byte('0'+c.try), byte('0'+c.st), byte('0'+c.answer))
		if c.seen {
			b = append(b, 's')
		}
		num(c.asked)
		num(c.fence)
		if c.phase == tmHolding || c.phase == tmRenewing {
			num(tmNow().Sub(c.term.Sent))
			num(c.term.Until.Sub(tmNow()))
			num(c.term.Next.Sub(tmNow()))
		}
	}
	for _, r := range s.wild {
		b = append(append(b, '~', byte('0'+r.st), byte('0'+r.from)), r.token...)
	}
	return string(b)
}

func exploreTable(t *testing.T, r tmRules, b tmBounds) explore.Result {
	t.Helper()
	m := &tmModel{r, b}
	result := explore.Explore(m.model())
	t.Logf("%+v: %v", b, result)
	return result
}

// Whatever the order of events, two leases are never valid at once, fences grow, and everybody is served, fails or
// crashes.
func TestTableModel(t *testing.T) {
	t.Parallel()
	for _, b := range stacktest.Some(1, []tmBounds{
		{clients: 2, turns: 1, silent: 1, late: 3},
		{clients: 2, turns: 1, silent: 1, crashes: 1, late: 1},
		{clients: 2, turns: 2, silent: 1},
		{clients: 2, turns: 2, removals: 1, late: 1},
		{clients: 3, turns: 1, crashes: 1, late: 1},
	}) {
		explore.Holds(t, exploreTable(t, realTable(), b))
	}
}

// The model's statements and the server's do the same to the same row. The clock of the connection stands still, so
// that also the moment at which a time limit is reached is one.
func TestTableModelDoesWhatTheServerDoes(t *testing.T) {
	t.Parallel()
	const now, lease = "1700000000", int64(tmLease / time.Microsecond)
	conn, err := pool(t, database(t), 1).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	do := func(query string, args ...any) (changed bool, fence lock.Fence) {
		t.Helper()
		result, err := execute(t.Context(), conn, query, args...)
		if mysqlerr.Number(err) == mysqlerr.DupEntry {
			return false, 0
		} else if err != nil {
			t.Fatal(err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			t.Fatal(err)
		}
		fence, _ = drawnFence(result) // only some statements draw one
		return n > 0, fence
	}
	do("SET timestamp = " + now)
	read := func() (row tmRow) {
		t.Helper()
		var left, fence int64
		const query = "SELECT token, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at)," +
			" CAST(fence AS SIGNED) - " + microseconds + " FROM locks"
		err := conn.QueryRowContext(t.Context(), query).Scan(&row.token, &left, &fence)
		if errors.Is(err, sql.ErrNoRows) {
			return tmRow{}
		} else if err != nil {
			t.Fatal(err)
		}
		row.exists, row.fence = true, time.Duration(fence)*time.Microsecond
		row.left = max(time.Duration(max(left, tmPast.Microseconds()))*time.Microsecond, tmPast)
		return row
	}
	rows := []tmRow{{}}
	fences := []time.Duration{tmPast, -fenceDistance * time.Microsecond, -time.Microsecond, time.Second}
	for _, token := range []string{"", "ours", "another"} {
		for _, left := range []time.Duration{tmPast, -time.Microsecond, 0, time.Microsecond, tmLease} {
			rows = append(rows, tmRow{true, token, left, fences[len(rows)%len(fences)]})
		}
	}
	rules := realTable()
	for _, row := range rows {
		for st, statement := range map[tmStatement]struct {
			query string
			args  []any
		}{
			tmAcquire: {acquireRow, []any{"ours", "me", fenceDistance, lease, "k"}},
			tmInsert:  {insertRow, []any{"k", "ours", "me", lease}},
			tmRenew:   {renewRow, []any{lease, "k", "ours"}},
			tmRelease: {releaseRow, []any{"k", "ours"}},
		} {
			do("DELETE FROM locks")
			if row.exists {
				do("INSERT INTO locks (name, token, who, fence, expires_at) VALUES ('k', ?, 'me', "+microseconds+
					" + ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)",
					row.token, row.fence.Microseconds(), row.left.Microseconds())
			}
			want, wantDone := rules.do(st, row, "ours", 0)
			done, fence := do(statement.query, statement.args...)
			// An UPDATE that leaves the row as it is says that it has changed none.
			if got := read(); got != want || done != (wantDone && row != want) {
				t.Errorf("statement %d on %+v: %+v, %v; the model says %+v, %v", st, row, got, done, want, wantDone)
			}
			if st <= tmInsert && done && int64(fence) != 1_700_000_000_000_000+want.fence.Microseconds() {
				t.Errorf("statement %d on %+v draws the fence %d, which is not in the row", st, row, fence)
			}
		}
	}
}

// Every bug that is put back is found.
func TestTableModelFindsBugs(t *testing.T) {
	t.Parallel()
	b, twice := tmBounds{clients: 2, turns: 1, silent: 1, late: 3}, tmBounds{clients: 2, turns: 2, silent: 1}
	for _, bug := range []struct {
		name   string
		put    func(r *tmRules)
		bounds tmBounds
		want   string
	}{
		{"the lease counts from the answer, not from before the request", func(r *tmRules) {
			r.sent = func(time.Duration) time.Duration { return 0 }
		}, b, "both hold"},
		{"a release names the key alone, not the token", func(r *tmRules) {
			r.ours = func(st tmStatement, row tmRow, token string) bool { return st == tmRelease || row.token == token }
		}, twice, "both hold"},
		{"a renewal names the key alone, not the token", func(r *tmRules) {
			r.ours = func(st tmStatement, row tmRow, token string) bool { return st == tmRenew || row.token == token }
		}, b, "both hold"},
		{"the client's clock says whether a lease is over", func(r *tmRules) {
			r.free = func(row tmRow, ahead time.Duration) bool { return row.left <= ahead }
		}, b, "both hold"},
		{"the clocks' drift is not allowed for", func(r *tmRules) {
			r.valid = func(k lock.Keep, term lock.Term, now time.Time) bool {
				return now.Before(term.Until.Add(k.TTL - lock.Valid(k.TTL)))
			}
		}, b, "both hold"},
		{"a try after one that was undone has the same token", func(r *tmRules) { r.tokens = false }, b, "both hold"},
		{"a takeover leaves the fence as it is", func(r *tmRules) {
			r.fence = func(last time.Duration) time.Duration { return last }
		}, twice, "fence"},
		{"the fence is the clock, whatever the last one was", func(r *tmRules) {
			r.fence = func(time.Duration) time.Duration { return 0 }
		}, twice, "fence"},
		{"a waiter does not look whether the row is still there", func(r *tmRules) {
			r.reads = false
		}, tmBounds{clients: 2, turns: 1, crashes: 1, removals: 1, late: 1}, "is never served"},
		{"a lease without a time limit", func(r *tmRules) {
			r.free = func(row tmRow, _ time.Duration) bool { return row.token == "" }
		}, tmBounds{clients: 2, turns: 1, crashes: 1}, "is never served"},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			rules := realTable()
			bug.put(&rules)
			explore.Finds(t, exploreTable(t, rules, bug.bounds), bug.want)
		})
	}
}

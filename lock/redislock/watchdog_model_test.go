package redislock

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/explore"
	"example.com/stock/lock/explore/pureredis"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/redislock/internal/request"
)

// This file holds a model of Watchdog: every order in which the requests of three clients can arrive, be answered, be
// late and be lost, while time passes and clients crash. See lock/explore/README.md.
//
// The server is the scripts themselves. The clients' decisions are the functions that Acquire and KeepAlive call. What
// the model tells again is the loop of Acquire: ask, wait for a grant or a second, ask again.

var deep = flag.Bool("deep", false, "explore with larger bounds: minutes, and gigabytes")

// watchdogRules is what the model runs. A test puts a bug back by replacing one.
type watchdogRules struct {
	enter, leave, renew string // Lua
	// hears reports whether a waiter whose last request has the number takes the message for it.
	hears func(value string, number uint64, message string) (lock.Fence, bool)
	takes func(waited time.Duration) bool
	spent func(took, lease time.Duration) bool
	keep  func(first time.Duration) lock.Renewal
	// sent is how long ago the request was that a lease counts from, given when it left and when it was answered.
	sent  func(left, answered time.Duration) time.Duration
	valid func(k lock.Renewal, t lock.Term, now time.Time) bool
}

const modelLease = 4 * time.Second

func realWatchdog() watchdogRules {
	o := WatchdogOptions{Lease: modelLease}
	return watchdogRules{
		enter: redisscript.New(queueSource + enterSource).Source,
		leave: redisscript.New(queueSource + leaveSource).Source, renew: renewSource,
		hears: func(value string, number uint64, message string) (lock.Fence, bool) {
			w := &waiter{request: number, granted: make(chan lock.Fence, 1)}
			n := &notifier{waiters: map[string]*waiter{value: w}}
			if g, ok := parseGrant(message); ok {
				n.notify(g)
			}
			select {
			case fence := <-w.granted:
				return fence, true
			default:
				return 0, false
			}
		},
		takes: o.takes,
		spent: request.Spent,
		keep:  o.keep,
		sent:  func(left, _ time.Duration) time.Duration { return left },
		valid: func(k lock.Renewal, t lock.Term, now time.Time) bool { return k.Over(t, now) == nil },
	}
}

// watchdogBounds says how much may happen in one run.
//
// late is for how many seconds altogether somebody may have something to do, or a message be on its way, and nothing
// happens. Nothing else bounds the time: a run may be of any length.
type watchdogBounds struct{ clients, turns, crashes, losses, leaves, slow, late int }

const (
	modelTick = time.Second
	// The clocks of the clients are slow by as much as Valid allows for. A fast one does no harm: it ends leases early.
	modelDrift = 100
	// More of a time than this is not told apart.
	modelOld = 6 * time.Second
	// The number of a client's last request is always this. Those of earlier ones are as much smaller as they are
	// earlier.
	modelNumber = 4
)

type wdPhase uint8

const (
	wdIdle wdPhase = iota
	wdAsking
	wdWaiting
	wdHolding
	wdCrashed
)

func (p wdPhase) String() string {
	return [...]string{"idle", "asking", "waiting", "holding", "crashed"}[p]
}

type wdClient struct {
	phase  wdPhase
	turn   int           // number of its acquisition; 0: none yet
	sent   time.Duration // since its last request left, by its own clock
	waited time.Duration // since it began to wait for a grant
	mail   lock.Fence    // of a grant that it has heard of, and not looked at; 0: none
	short  bool          // the lease began with a grant
	asked  time.Duration // since the renewal under way left; less than 0: none
	term   lock.Term
}

// wdMessage is a request on its way to the server, or an answer, or a grant.
type wdMessage struct {
	client int
	turn   int
	kind   string // enter, leave, renew, granted, held, renewed, lost, grant
	number int
	looks  int // of a leave that undoes a request without an answer: so many answers that find nothing are proof
	fence  lock.Fence
	text   string // of a grant
}

// wdSeen is when a waiter last asked, and with which number.
type wdSeen struct {
	value  string
	age    time.Duration
	number int
}

type wdServer struct {
	holder string
	ttl    time.Duration
	last   lock.Fence // the last fence; 0: none
	queue  []string
	seen   []wdSeen // by value
}

type wdState struct {
	server  wdServer
	clients [3]wdClient
	mail    []wdMessage // on their way
	top     lock.Fence  // the largest fence that anybody has held with

	crashes, losses, leaves, slow, late int // how many may still happen
}

type watchdogModel struct {
	t      testing.TB
	redis  *pureredis.Redis
	rules  watchdogRules
	bounds watchdogBounds
	failed error // the model itself is wrong
}

func modelValue(client, turn int) string { return fmt.Sprintf("c%d:%d me", client+1, turn) }

func modelClient(value string) (client, turn int) {
	client = int(value[1] - '1')
	turn = int(value[3] - '0')
	return client, turn
}

func (m *watchdogModel) model() explore.Model[wdState] {
	lanes := []string{}
	for i := range m.bounds.clients {
		lanes = append(lanes, "client "+strconv.Itoa(i+1))
	}
	first := wdState{
		crashes: m.bounds.crashes, losses: m.bounds.losses, leaves: m.bounds.leaves,
		slow: m.bounds.slow, late: m.bounds.late,
	}
	return explore.Model[wdState]{
		Lanes: append(lanes, "redis"), Init: []wdState{first},
		Steps: m.steps, Key: m.key, Check: m.check, Settled: m.settled,
		// A crashed holder's lease, a grant to a waiter that crashed, and a second until the next one asks, each twice
		// over: the second crash may come when the first is over.
		MaxStates: 200_000,
		Patience:  time.Duration(1+m.bounds.crashes) * (modelLease + request.Recheck),
	}
}

// now is the time at which all steps of the model take place. What is earlier is written as an earlier time.
func (m *watchdogModel) now() time.Time { return pureredis.Epoch() }

func (s wdState) clone() wdState {
	s.mail = slices.Clone(s.mail)
	s.server.queue = slices.Clone(s.server.queue)
	s.server.seen = slices.Clone(s.server.seen)
	return s
}

// A wdStep is a step that is being made: the state it leads to, and what is told of it.
type wdStep struct {
	to    wdState
	notes []explore.Note
	wrong error
}

func (m *watchdogModel) begin(s wdState, lane int, text string) *wdStep {
	return &wdStep{to: s.clone(), notes: []explore.Note{{Lane: lane, Text: text}}}
}

func (w *wdStep) note(lane int, text string) {
	for i := range w.notes {
		if n := &w.notes[i]; n.Lane == lane {
			n.Text += ": " + text
			return
		}
	}
	w.notes = append(w.notes, explore.Note{Lane: lane, Text: text})
}

func (w *wdStep) fail(err error) {
	if w.wrong == nil {
		w.wrong = err
	}
}

// steps returns all that can happen in a state. The calm ones come in the order in which they are urgent.
//
// A message arrives in the step in which it is sent, unless it is one of the few that are slow or lost. That leaves
// out no order of what the server does, and makes states fewer by a factor of a hundred.
func (m *watchdogModel) steps(s wdState) (steps []explore.Step[wdState]) {
	calm := true
	add := func(w *wdStep, urgent bool) {
		steps = append(steps, explore.Step[wdState]{Notes: w.notes, To: w.to, Wrong: w.wrong, Calm: urgent})
		calm = calm && !urgent
	}
	for i, message := range s.mail {
		if slices.Index(s.mail[:i], message) >= 0 || m.blocked(s, message) {
			continue
		}
		w := m.begin(s, m.server(), "what was slow arrives")
		w.to.mail = slices.Delete(w.to.mail, i, i+1)
		answer, grants := m.deliver(w, message)
		m.arrive(w, answer)
		m.arrive(w, grants)
		add(w, true)
	}
	for i := range m.bounds.clients {
		m.act(s, i, add)
	}
	w := &wdStep{to: s.clone()}
	if m.pass(&w.to); !m.idle(s) {
		if w.to.late--; w.to.late < 0 {
			return steps
		}
	}
	add(w, calm && m.settled(s) != nil)
	steps[len(steps)-1].Takes = modelTick
	return steps
}

// server is the number of the server's lane.
func (m *watchdogModel) server() int { return m.bounds.clients }

// send makes the steps in which a client sends a request: it arrives and is answered, or it is slow, or lost.
func (m *watchdogModel) send(s wdState, begin func() (*wdStep, wdMessage), urgent bool, add func(*wdStep, bool)) {
	w, request := begin()
	answer, grants := m.deliver(w, request)
	m.arrive(w, answer)
	m.arrive(w, grants)
	add(w, urgent)

	awaited := request.kind != "leave"
	if s.slow > 0 {
		w, _ := begin()
		w.to.slow--
		w.to.mail = append(w.to.mail, request)
		w.note(m.server(), "(the request is slow)")
		add(w, false)
		if awaited {
			w, _ := begin()
			w.to.slow--
			answer, grants := m.deliver(w, request)
			w.to.mail = append(w.to.mail, answer...)
			m.arrive(w, grants)
			w.note(m.server(), "(the answer is slow)")
			add(w, false)
		}
		if len(grants) > 0 {
			w, _ := begin()
			w.to.slow--
			answer, grants := m.deliver(w, request)
			w.to.mail = append(w.to.mail, grants...)
			m.arrive(w, answer)
			w.note(m.server(), "(the message is slow)")
			add(w, false)
		}
	}
	if s.losses == 0 {
		return
	}
	lost := request
	lost.kind = "lost"
	if awaited {
		w, _ := begin()
		w.to.losses--
		w.note(m.server(), "(the request is lost)")
		m.arrive(w, []wdMessage{lost})
		add(w, false)

		w, _ = begin()
		w.to.losses--
		_, grants := m.deliver(w, request)
		m.arrive(w, grants)
		w.note(m.server(), "(the answer is lost)")
		m.arrive(w, []wdMessage{lost})
		add(w, false)
	}
	if len(grants) > 0 {
		w, _ := begin()
		w.to.losses--
		answer, _ := m.deliver(w, request)
		m.arrive(w, answer)
		w.note(m.server(), "(the message is lost)")
		add(w, false)
	}
}

// idle reports whether nobody has anything to do now, and nothing is on its way.
func (m *watchdogModel) idle(s wdState) bool {
	for _, c := range s.clients {
		switch {
		case c.phase == wdWaiting && (c.mail != 0 || c.waited >= request.Recheck-request.Recheck/4),
			c.phase == wdHolding && m.keepOf(c).Over(c.term, m.now()) != nil,
			c.phase == wdHolding && c.asked < 0 && !m.now().Before(c.term.Next):
			return false
		}
	}
	return len(s.mail) == 0
}

func clientName(i int) string { return "client " + strconv.Itoa(i+1) }

// blocked reports whether a message cannot arrive yet. The second answer to a leave proves that the request before it
// has been read, or never will be.
func (m *watchdogModel) blocked(s wdState, message wdMessage) bool {
	return message.kind == "leave" && message.looks == 1 && slices.ContainsFunc(s.mail, func(o wdMessage) bool {
		return o.kind == "enter" && o.client == message.client && o.turn == message.turn
	})
}

// act adds the steps of one client.
func (m *watchdogModel) act(s wdState, i int, add func(*wdStep, bool)) {
	c := s.clients[i]
	ask := func(text string, urgent bool) {
		m.send(s, func() (*wdStep, wdMessage) {
			w := m.begin(s, i, text)
			if w.to.clients[i].phase == wdIdle {
				w.to.clients[i] = wdClient{turn: c.turn + 1, asked: -1}
			}
			return w, m.ask(&w.to, i)
		}, urgent, add)
	}
	leave := func(text string, urgent bool, leaves int) {
		m.send(s, func() (*wdStep, wdMessage) {
			w := m.begin(s, i, text)
			w.to.leaves -= leaves
			return w, m.leave(&w.to, i, 0)
		}, urgent, add)
	}
	switch c.phase {
	case wdIdle:
		if c.turn < m.bounds.turns {
			ask("asks", false)
		}
		return
	case wdCrashed:
		return
	case wdWaiting:
		switch {
		case c.mail != 0 && m.rules.takes(c.sent):
			w := m.begin(s, i, "takes the grant")
			m.hold(w, i, c.mail, grantLease)
			add(w, true)
		case c.mail != 0:
			ask("heard of the grant too late, asks again", true)
		case c.waited >= request.Recheck-request.Recheck/4:
			ask("heard nothing, asks again", true)
		}
		if s.leaves > 0 {
			leave("gives up", false, 1)
		}
	case wdHolding:
		if m.keepOf(c).Over(c.term, m.now()) != nil {
			leave("notices that its lease is over", true, 0)
			break
		}
		leave("releases", true, 0)
		if c.asked < 0 && !m.now().Before(c.term.Next) {
			m.send(s, func() (*wdStep, wdMessage) {
				w := m.begin(s, i, "asks for another lease")
				w.to.clients[i].asked = 0
				return w, wdMessage{client: i, turn: c.turn, kind: "renew"}
			}, false, add)
		}
	}
	if s.crashes > 0 {
		w := m.begin(s, i, "crashes")
		w.to.crashes--
		w.to.clients[i] = wdClient{phase: wdCrashed, turn: c.turn, asked: -1}
		w.to.mail = slices.DeleteFunc(w.to.mail, func(o wdMessage) bool {
			return o.client == i && o.kind != "enter" && o.kind != "leave" && o.kind != "renew"
		})
		add(w, false)
	}
}

// ask begins another request of a client, as notifier.next does: what an earlier one was answered does not count.
func (m *watchdogModel) ask(s *wdState, i int) wdMessage {
	c := &s.clients[i]
	c.phase, c.sent, c.waited, c.mail = wdAsking, 0, 0, 0
	for n := range s.mail {
		if o := &s.mail[n]; o.client == i && o.turn == c.turn && o.number > 0 {
			o.number = max(o.number-1, 1)
			o.text = renumber(o.text)
		}
	}
	for n := range s.server.seen {
		if o := &s.server.seen[n]; o.value == modelValue(i, c.turn) {
			o.number = max(o.number-1, 1)
		}
	}
	return wdMessage{client: i, turn: c.turn, kind: "enter", number: modelNumber}
}

// renumber lowers the number in a message of a grant.
func renumber(text string) string {
	g, ok := parseGrant(text)
	if !ok {
		return text
	}
	return fmt.Sprintf("%s\n%d\n%d", g.value, max(g.request-1, 1), g.fence)
}

// leave ends an acquisition, of whatever kind.
func (m *watchdogModel) leave(s *wdState, i, looks int) wdMessage {
	turn := s.clients[i].turn
	s.clients[i] = wdClient{turn: turn, asked: -1}
	return wdMessage{client: i, turn: turn, kind: "leave", looks: looks}
}

// hold makes a client the holder. It counts the lease from when its request left.
func (m *watchdogModel) hold(w *wdStep, i int, f lock.Fence, first time.Duration) {
	c := &w.to.clients[i]
	c.phase, c.short, c.asked, c.mail, c.waited = wdHolding, first != 0, -1, 0, 0
	c.term = m.keepOf(*c).Begin(m.now().Add(-m.rules.sent(c.sent, 0)))
	c.sent = 0
	if f <= w.to.top {
		w.fail(errors.New("the new holder's fence is not larger than that of an earlier one: its writes are " +
			"refused, or those of the earlier one are accepted behind them"))
	}
	w.to.top = max(w.to.top, f)
}

func (m *watchdogModel) keepOf(c wdClient) lock.Renewal {
	if c.short {
		return m.rules.keep(grantLease)
	}
	return m.rules.keep(0)
}

// deliver lets a message arrive. A request is answered, and may grant the lock to others: these messages are not sent
// yet.
func (m *watchdogModel) deliver(w *wdStep, message wdMessage) (answer, grants []wdMessage) {
	s, i := &w.to, message.client
	value, before := modelValue(i, message.turn), s.server
	var reply any
	switch message.kind {
	case "enter":
		reply, grants = m.run(s, m.rules.enter, value,
			modelLease.Milliseconds(), grantLease.Milliseconds(), message.number)
		w.fail(m.passedOver(before, s.server, value))
		fence, err := request.ParseGranted("k", reply)
		got := wdMessage{client: i, turn: message.turn, kind: "granted", fence: fence}
		if errors.Is(err, lock.ErrHeld) {
			got.kind = "held"
			w.note(m.server(), clientName(i)+" waits for "+s.server.holder[:2])
		} else {
			w.note(m.server(), "grants it to "+clientName(i))
		}
		return []wdMessage{got}, grants
	case "leave":
		reply, grants = m.run(s, m.rules.leave, value, grantLease.Milliseconds())
		w.fail(m.passedOver(before, s.server, ""))
		n, _ := reply.(int64)
		if message.looks > 1 && n != 1 {
			message.looks--
			s.mail = append(s.mail, message)
		}
		switch {
		case n == 1 && s.server.holder != "":
			w.note(m.server(), "grants it to "+s.server.holder[:2])
		case n == 1:
			w.note(m.server(), "free")
		default:
			w.note(m.server(), clientName(i)+" does not have it")
		}
		return nil, grants
	case "renew":
		reply, _ = m.run(s, m.rules.renew, value, modelLease.Milliseconds())
		n, _ := reply.(int64)
		w.note(m.server(), map[int64]string{1: "renewed", 0: "not renewed: gone", -1: "not renewed: another's"}[n])
		return []wdMessage{{client: i, turn: message.turn, kind: "renewed", number: int(n) + 2}}, nil
	default:
		return []wdMessage{message}, nil
	}
}

// arrive lets answers and grants come to their clients.
func (m *watchdogModel) arrive(w *wdStep, list []wdMessage) {
	for _, message := range list {
		text := m.hear(w, message)
		w.note(message.client, text)
	}
}

func (m *watchdogModel) hear(w *wdStep, message wdMessage) (text string) {
	s, i := &w.to, message.client
	c := &s.clients[i]
	if c.turn != message.turn {
		return "an answer comes for nobody"
	}
	switch message.kind {
	case "lost":
		if c.phase == wdHolding {
			c.term.Next, c.asked = m.now().Add(m.keepOf(*c).Every/10), -1
			return "no answer"
		}
		if c.phase == wdAsking {
			s.mail = append(s.mail, m.leave(s, i, 2))
			return "no answer, takes it back"
		}
	case "held":
		if c.phase == wdAsking {
			c.phase = wdWaiting
			return "waits"
		}
	case "granted":
		switch {
		case c.phase != wdAsking:
		case m.rules.spent(m.rules.sent(c.sent, 0), modelLease):
			s.mail = append(s.mail, m.ask(s, i))
			return "a lease that is over, asks again"
		default:
			m.hold(w, i, message.fence, 0)
			return "holds"
		}
	case "renewed":
		if c.phase != wdHolding || c.asked < 0 {
			break
		}
		k := m.keepOf(*c)
		switch err := request.Ownership(message.number-2, nil); {
		case err != nil:
			s.mail = append(s.mail, m.leave(s, i, 0))
			return "its lease is lost"
		case k.Over(c.term, m.now()) != nil:
			c.asked = -1
			return "renewed too late"
		}
		c.term = k.Renewed(c.term, m.now().Add(-m.rules.sent(c.asked, 0)))
		c.asked, c.short = -1, false
		return "holds on"
	case "grant":
		if (c.phase == wdAsking || c.phase == wdWaiting) && c.mail == 0 {
			value := modelValue(i, c.turn)
			if fence, heard := m.rules.hears(value, modelNumber, message.text); heard {
				c.mail = fence
				return "hears of its grant"
			}
		}
		return "hears of a grant to an earlier request"
	}
	return "an answer comes for nobody"
}

// passedOver says whether the lock went to somebody although another living waiter came first, or to nobody although
// somebody waits. by is who asks, and may itself stand in the queue.
func (m *watchdogModel) passedOver(before, after wdServer, by string) error {
	if after.holder == before.holder {
		return nil
	}
	first := ""
	for _, value := range before.queue {
		at := slices.IndexFunc(before.seen, func(o wdSeen) bool { return o.value == value })
		if at >= 0 && before.seen[at].age < 5*time.Second {
			first = value
			break
		}
	}
	if first == "" {
		first = by
	}
	switch {
	case first == after.holder:
		return nil
	case after.holder == "":
		return fmt.Errorf("the lock is free, %s waits for it, and nobody tells it", first[:2])
	case first == "":
		return fmt.Errorf("%s is granted the lock, but has not asked for so long that it must be dead",
			after.holder[:2])
	default:
		return fmt.Errorf("%s is let in, but it was the turn of %s", after.holder[:2], first[:2])
	}
}

// run runs a script.
func (m *watchdogModel) run(
	s *wdState, script, value string, args ...any,
) (reply any, grants []wdMessage) {
	names := []string{"watchdog:{k}", "watchdog:{k}:fence", "watchdog:{k}:queue", "watchdog:{k}:seen"}
	keys := s.server.keys(names)
	if script == m.rules.renew {
		names = names[:1]
	}
	words := []string{value}
	for _, arg := range args {
		words = append(words, fmt.Sprint(arg))
	}
	answer := m.redis.Eval(keys, script, names, words...)
	if answer.Err == nil {
		answer.Err = s.server.read(answer.Keys)
	}
	if answer.Err != nil {
		m.failed = answer.Err
	}
	for _, message := range answer.Messages {
		g, ok := parseGrant(message.Text)
		value, number, fence := g.value, g.request, g.fence
		if !ok {
			m.failed = fmt.Errorf("message %q", message.Text)
			continue
		}
		client, turn := modelClient(value)
		c := s.clients[client]
		if c.turn == turn && (c.phase == wdAsking || c.phase == wdWaiting) { // else there is nobody to hear it
			grants = append(grants, wdMessage{
				client: client, turn: turn, kind: "grant", number: int(number), fence: fence, text: message.Text,
			})
		}
	}
	return answer.Reply, grants
}

const (
	modelFenceLife = 25 * time.Hour
	modelQueueLife = time.Minute
)

// keys writes the server's state as Redis has it. The queue's own life of a minute does not run down here: its waiters
// are dead long before.
func (v wdServer) keys(names []string) (keys []pureredis.Key) {
	if v.holder != "" {
		keys = append(keys, pureredis.Key{Name: names[0], Text: v.holder, TTL: v.ttl})
	}
	if v.last != 0 {
		text := strconv.FormatUint(uint64(v.last), 10)
		keys = append(keys, pureredis.Key{Name: names[1], Text: text, TTL: modelFenceLife})
	}
	if len(v.queue) > 0 {
		keys = append(keys, pureredis.Key{Name: names[2], List: v.queue, TTL: modelQueueLife})
	}
	if len(v.seen) > 0 {
		hash := make([]string, 0, 2*len(v.seen))
		for _, o := range v.seen {
			at := pureredis.Epoch().Add(-o.age).UnixMilli()
			hash = append(hash, o.value, fmt.Sprintf("%d.%d", at, o.number))
		}
		keys = append(keys, pureredis.Key{Name: names[3], Hash: hash, TTL: modelQueueLife})
	}
	return keys
}

func (v *wdServer) read(keys []pureredis.Key) error {
	*v = wdServer{}
	for _, k := range keys {
		switch _, last, _ := strings.Cut(k.Name, "}"); last {
		case "":
			v.holder, v.ttl = k.Text, k.TTL
		case ":fence":
			n, err := strconv.ParseUint(k.Text, 10, 64)
			if err != nil {
				return err
			}
			v.last = lock.Fence(n)
		case ":queue":
			v.queue = k.List
		case ":seen":
			for pair := range slices.Chunk(k.Hash, 2) {
				var at int64
				o := wdSeen{value: pair[0]}
				if _, err := fmt.Sscanf(pair[1], "%d.%d", &at, &o.number); err != nil {
					return fmt.Errorf("%q: %w", pair, err)
				}
				o.age = pureredis.Epoch().Sub(time.UnixMilli(at))
				v.seen = append(v.seen, o)
			}
		}
	}
	return nil
}

// pass lets a tick pass: on the server all of it, on a client 1 % less.
func (m *watchdogModel) pass(s *wdState) {
	const local = modelTick - modelTick/modelDrift
	v := &s.server
	if v.ttl -= modelTick; v.holder != "" && v.ttl <= 0 {
		v.holder, v.ttl = "", 0
	}
	if v.holder == "" {
		v.ttl = 0
	}
	for i := range v.seen {
		v.seen[i].age = min(v.seen[i].age+modelTick, 5*time.Second) // all the dead are equal
	}
	now := m.now()
	for i := range s.clients {
		c := &s.clients[i]
		switch c.phase {
		case wdAsking:
			c.sent = min(c.sent+local, modelOld)
		case wdWaiting:
			c.sent, c.waited = min(c.sent+local, modelOld), min(c.waited+local, request.Recheck-request.Recheck/4)
		case wdHolding:
			c.term.Sent = later(c.term.Sent.Add(-local), now.Add(-modelOld))
			c.term.Until = later(c.term.Until.Add(-local), now)
			c.term.Next = later(c.term.Next.Add(-local), now)
			if c.asked >= 0 {
				c.asked = min(c.asked+local, modelOld)
			}
		}
	}
	m.age(s)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// age makes all fences older by a tick. How much older than the clock they are does not matter, only which is larger:
// the k-th largest is k ms old. So states that differ in that alone are the same.
func (m *watchdogModel) age(s *wdState) {
	var all []lock.Fence
	s.fences(func(f *lock.Fence) {
		if *f != 0 && !slices.Contains(all, *f) {
			all = append(all, *f)
		}
	})
	slices.Sort(all)
	s.fences(func(f *lock.Fence) {
		if *f != 0 {
			at, _ := slices.BinarySearch(all, *f)
			*f = lock.Fence(m.now().Add(-time.Duration(len(all)-at) * time.Millisecond).UnixMicro())
		}
	})
	for i := range s.mail {
		if o := &s.mail[i]; o.kind == "grant" {
			g, _ := parseGrant(o.text)
			o.text = fmt.Sprintf("%s\n%d\n%d", g.value, g.request, o.fence)
		}
	}
}

func (s *wdState) fences(visit func(*lock.Fence)) {
	visit(&s.server.last)
	visit(&s.top)
	for i := range s.clients {
		visit(&s.clients[i].mail)
	}
	for i := range s.mail {
		visit(&s.mail[i].fence)
	}
}

// check says whether two leases are valid at once, each by its holder's clock. A holder that is paused does not know,
// but it has a lease until its clock says otherwise.
func (m *watchdogModel) check(s wdState) error {
	if m.failed != nil {
		return m.failed
	}
	holders := ""
	for i, c := range s.clients {
		if c.phase == wdHolding && m.rules.valid(m.keepOf(c), c.term, m.now()) {
			if holders != "" {
				return fmt.Errorf("%s and %s both hold a lease that is valid by their own clock",
					holders, clientName(i))
			}
			holders = clientName(i)
		}
	}
	if s.losses != m.bounds.losses {
		return nil
	}
	for i, c := range s.clients {
		if c.phase != wdWaiting || c.mail != 0 || s.server.holder != modelValue(i, c.turn) {
			continue
		}
		if !slices.ContainsFunc(s.mail, func(o wdMessage) bool { return o.kind == "grant" && o.client == i }) {
			return fmt.Errorf("%s was granted the lock, waits for the message, and none is on its way", clientName(i))
		}
	}
	return nil
}

// settled says whether everybody who still runs was served.
func (m *watchdogModel) settled(s wdState) error {
	for i := range m.bounds.clients {
		if c := s.clients[i]; c.phase != wdIdle && c.phase != wdCrashed {
			return fmt.Errorf("%s is forgotten: it is %v, and nothing will happen any more", clientName(i), c.phase)
		}
	}
	return nil
}

// key leaves out what no step reads.
func (m *watchdogModel) key(s wdState) string {
	b := make([]byte, 0, 256)
	num := func(n int64) { b = append(strconv.AppendInt(b, n, 36), ' ') }
	text := func(s string) { b = append(append(b, s...), ';') }
	fence := func(f lock.Fence) {
		if f == 0 {
			b = append(b, '-')
			return
		}
		num(int64(f) - m.now().UnixMicro())
	}
	text(s.server.holder)
	num(int64(s.server.ttl))
	fence(s.server.last)
	fence(s.top)
	for _, value := range s.server.queue {
		text(value)
	}
	for _, o := range s.server.seen {
		text(o.value)
		num(int64(o.age))
		num(int64(o.number))
	}
	now := m.now()
	for _, c := range s.clients[:m.bounds.clients] {
		b = append(b, 'C', byte('0'+c.phase), byte('0'+c.turn))
		num(int64(c.sent))
		num(int64(c.waited))
		fence(c.mail)
		if c.phase == wdHolding {
			num(int64(c.asked))
			num(int64(c.term.Until.Sub(now)))
			num(int64(c.term.Next.Sub(now)))
			if c.short {
				b = append(b, 's')
			}
		}
	}
	var letters []string
	for _, o := range s.mail {
		start := len(b)
		text(o.kind)
		b = append(b, byte('0'+o.client), byte('0'+o.turn), byte('0'+o.number), byte('0'+o.looks))
		fence(o.fence)
		letters = append(letters, string(b[start:]))
		b = b[:start]
	}
	slices.Sort(letters)
	for _, letter := range letters {
		text(letter)
	}
	num(int64(s.crashes*1000 + s.losses*100 + s.leaves*10 + s.slow))
	num(int64(s.late))
	return string(b)
}

func exploreWatchdog(t testing.TB, r watchdogRules, b watchdogBounds) explore.Result {
	t.Helper()
	server, err := pureredis.New()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	m := &watchdogModel{t: t, redis: server, rules: r, bounds: b}
	result := explore.Explore(m.model())
	if m.failed != nil {
		t.Fatal(m.failed)
	}
	t.Logf("%+v: %v; %d scripts run", b, result, server.Runs)
	return result
}

// watchdogSpaces are the bounds that are explored by default. Each leaves something out that another has.
func watchdogSpaces() []watchdogBounds {
	if *deep {
		return []watchdogBounds{
			{clients: 2, turns: 1, crashes: 1, losses: 1, leaves: 1, slow: 2, late: 6},
			{clients: 2, turns: 2, crashes: 1, losses: 1, leaves: 1, slow: 1, late: 5},
			{clients: 3, turns: 1, crashes: 1, losses: 1, leaves: 1, slow: 1, late: 5},
		}
	}
	return []watchdogBounds{
		{clients: 2, turns: 1, losses: 1, slow: 1, late: 4},
		{clients: 2, turns: 1, crashes: 1, leaves: 1, slow: 1, late: 4},
		{clients: 2, turns: 2, slow: 1, late: 4},
		{clients: 3, turns: 1, crashes: 1, late: 1},
	}
}

// Whatever the order of events, two leases are never valid at once, fences grow, nobody passes a waiter, and everybody
// is served or crashes.
func TestWatchdogModel(t *testing.T) {
	for _, b := range servertest.Some(1, watchdogSpaces()) {
		explore.Holds(t, exploreWatchdog(t, realWatchdog(), b))
	}
}

// Every bug that is put back is found.
func TestWatchdogModelFindsBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	small := watchdogBounds{clients: 2, turns: 1, slow: 1, late: 5}
	twice := watchdogBounds{clients: 2, turns: 2, slow: 1, late: 5}
	three := watchdogBounds{clients: 3, turns: 1, crashes: 1, late: 1}
	for _, bug := range []struct {
		name   string
		put    func(r *watchdogRules)
		bounds watchdogBounds
		want   string
	}{
		{
			"a waiter takes the grant of an earlier request", func(r *watchdogRules) {
				hears := r.hears
				r.hears = func(value string, number uint64, message string) (lock.Fence, bool) {
					g, _ := parseGrant(message)
					request := g.request
					return hears(value, request, message)
				}
			},
			twice, "fence is not larger",
		},
		{
			"a grant is believed for as long as another lease", func(r *watchdogRules) {
				r.takes = func(time.Duration) bool { return true }
				r.keep = func(time.Duration) lock.Renewal { return realWatchdog().keep(0) }
				r.leave = explore.PutBack(t, r.leave, "grant(first, request, ARGV[2])", "grant(first, request, 2000)")
			},
			twice, "both hold",
		},
		{
			"the lease counts from the answer, not from before the request", func(r *watchdogRules) {
				r.sent = func(_, answered time.Duration) time.Duration { return answered }
			},
			small, "both hold",
		},
		{
			"the clocks' drift is not allowed for", func(r *watchdogRules) {
				r.valid = func(k lock.Renewal, term lock.Term, now time.Time) bool {
					ttl := k.TTL
					if k.First > 0 {
						ttl = k.First
					}
					return now.Before(term.Until.Add(ttl - lock.Valid(ttl)))
				}
			},
			small, "both hold",
		},
		{
			"a newcomer passes the queue", func(r *watchdogRules) {
				r.enter = explore.PutBack(t, r.enter,
					"local first, request = oldest(joining)\n  if not first or first == ARGV[1] then",
					"local first, request\n  if true then")
			},
			three, "it was the turn of",
		},
		{
			"the queue is last come, first served", func(r *watchdogRules) {
				r.leave = explore.PutBack(t, r.leave, "redis.call('LPOP', KEYS[3])", "redis.call('RPOP', KEYS[3])")
			},
			three, "it was the turn of",
		},
		{
			"dead waiters are granted the lock", func(r *watchdogRules) {
				r.leave = explore.PutBack(t, r.leave, "clock() / 1000 - (tonumber(seen) or 0) < DEAD", "true")
			},
			watchdogBounds{clients: 3, turns: 1, crashes: 1, late: 5},
			"",
		},
		{
			"a release tells nobody", func(r *watchdogRules) {
				told := "redis.pcall('PUBLISH', 'watchdog:' .. process(value), " +
					"value .. '\\n' .. request .. '\\n' .. fence)"
				r.leave = explore.PutBack(t, r.leave, told, "")
			},
			small, "none is on its way",
		},
		{
			"a release frees the lock although somebody waits", func(r *watchdogRules) {
				r.leave = explore.PutBack(t, r.leave, "if first then\n  grant(first, request, ARGV[2])\nelse",
					"if true then")
			},
			small, "nobody tells it",
		},
		{
			"a release does not look whose the lock is", func(r *watchdogRules) {
				r.leave = explore.PutBack(t, r.leave, "if holder ~= ARGV[1] then", "if not holder then")
			},
			twice, "both hold",
		},
		{
			"fences repeat", func(r *watchdogRules) {
				r.enter = explore.PutBack(t, r.enter, "if fence < last + SPAN then", "if false then")
			},
			small, "fence is not larger",
		},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			rules := realWatchdog()
			bug.put(&rules)
			explore.Finds(t, exploreWatchdog(t, rules, bug.bounds), bug.want)
		})
	}
}

package lab

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/loadtest"
)

// A keyAnswer is the reply of one server of several to a customer who asked for the key.
type keyAnswer struct {
	lane, who, app string
	before, at     time.Time // the reply was sent between these two times
	granted        bool
}

// A keyHold is an interval in which the key on one server had a customer's value.
type keyHold struct {
	keyAnswer
	until time.Time
	lease []TTL
}

// WatchKey records, in a lane of its own, the replies of one Redis of several to the case's customers who ask for a
// key, and which of them has the key, until the case ends. MONITOR shows who asks; GET, right after that and every 20
// ms, shows who has the key. Values must name the request and its instance, as the service's do; others are ignored. No
// verdict depends on it.
func (b *Testbed) WatchKey(lane, addr, key string) {
	w := &keyWatch{b: b, lane: lane, key: key, client: b.RedisAt(addr), last: time.Now()}
	w.customer = regexp.MustCompile(regexp.QuoteMeta(b.SKU) + `\.([\w-]+)`)
	asked := make(chan string, 1024)
	b.Go(func(ctx context.Context) { monitor(ctx, addr, key, asked) })
	b.Go(func(ctx context.Context) { w.follow(ctx, asked) })
}

// A keyWatch follows a key on one server.
type keyWatch struct {
	b         *Testbed
	lane, key string
	client    *redis.Client
	customer  *regexp.Regexp
	value     string // of the key
	hold      keyHold
	last      time.Time // when it was read
}

func (w *keyWatch) follow(ctx context.Context, asked <-chan string) {
	defer func() { w.end(w.last) }()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(ctx, "")
		case value := <-asked:
			w.look(ctx, value)
		}
	}
}

// look reads the key. asked is the value of the latest command to set it, or "".
func (w *keyWatch) look(ctx context.Context, asked string) {
	var value *redis.StringCmd
	var left *redis.DurationCmd
	_, _ = w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		value, left = p.Get(ctx, w.key), p.PTTL(ctx, w.key)
		return nil
	})
	now := time.Now()
	if err := value.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return // the server is down
	}
	before, has := w.last, value.Val()
	w.last = now
	if asked != "" && has == "" && w.value != asked {
		// The key was set and deleted since. If another customer had held the key, it would still be set.
		w.begin(asked, before, now)
		w.end(now)
	}
	if asked != "" && has != "" && has != asked && w.value != asked {
		w.answer(w.of(asked, before, now))
	}
	if has != w.value {
		w.end(now)
		w.begin(has, before, now)
	}
	if left.Err() == nil && left.Val() > 0 {
		w.hold.lease = runDown(w.hold.lease, TTL{now.UTC(), ms(left.Val())})
	}
}

// of returns a reply to the customer whom a value names; who is "" if it names none.
func (w *keyWatch) of(value string, before, at time.Time) keyAnswer {
	a := keyAnswer{lane: w.lane, app: anApp.FindString(value), before: before, at: at}
	if name := w.customer.FindStringSubmatch(value); name != nil {
		a.who = name[1]
	}
	return a
}

func (w *keyWatch) begin(value string, before, at time.Time) {
	w.value, w.hold = value, keyHold{keyAnswer: w.of(value, before, at)}
	w.hold.granted = true
	w.answer(w.hold.keyAnswer)
}

func (w *keyWatch) end(at time.Time) {
	if w.hold.who != "" {
		w.hold.until = at
		w.b.mu.Lock()
		w.b.holds = append(w.b.holds, w.hold)
		w.b.mu.Unlock()
	}
	w.value, w.hold = "", keyHold{}
}

func (w *keyWatch) answer(a keyAnswer) {
	if a.who != "" && a.app != "" {
		w.b.mu.Lock()
		w.b.answers = append(w.b.answers, a)
		w.b.mu.Unlock()
	}
}

// anApp matches the name of an instance.
var anApp = regexp.MustCompile(`\bapp-\d+\b`)

// quoted matches the words of a command in the output of MONITOR.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// monitor sends to asked the values that commands try to set under a key on a server, until ctx ends. It reconnects
// when the server is away.
func monitor(ctx context.Context, addr, key string, asked chan<- string) {
	for ctx.Err() == nil {
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr); err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			readMonitor(conn, key, asked)
			stop()
			conn.Close()
		}
		_ = loadtest.Sleep(ctx, watchEvery)
	}
}

func readMonitor(conn io.ReadWriter, key string, asked chan<- string) {
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if value := setting(lines.Text(), key); value != "" {
			select {
			case asked <- value:
			default: // drop it: the customer tries again and again
			}
		}
	}
}

// setting returns the value that a command in a line of MONITOR sets under a key, or "".
func setting(line, key string) string {
	words := quoted.FindAllString(line, -1)
	if len(words) < 3 || !strings.EqualFold(words[0], `"set"`) || words[1] != strconv.Quote(key) {
		return ""
	}
	value, err := strconv.Unquote(words[2])
	if err != nil {
		return ""
	}
	return value
}

// drawKeys records the results of WatchKey. For a customer who asks repeatedly it records the first reply, and the one
// that gave it the lock or the last one.
func (b *Testbed) drawKeys() {
	type question struct{ lane, who string }
	given := make(map[question][]keyAnswer)
	for _, a := range b.answers {
		q := question{a.lane, a.who}
		given[q] = append(given[q], b.beforeItsEffect(a))
	}
	for q, list := range given {
		slices.SortFunc(list, func(x, y keyAnswer) int { return x.at.Compare(y.at) })
		shown := []int{0}
		if last := b.winner(q.who, list); last > 0 {
			shown = append(shown, last)
		}
		for _, i := range shown {
			a := list[i]
			kind, said := Gets, say("says.gets-key", "who", a.who, "server", a.lane)
			if !a.granted {
				kind, said = Refused, say("says.refuses-key", "who", a.who, "server", a.lane)
			}
			b.record(CaseEvent{At: a.at, Lane: a.app, Kind: kind, Who: a.who, To: a.lane}, said)
		}
	}
	for _, h := range b.holds {
		list := given[question{h.lane, h.who}]
		h.keyAnswer = b.beforeItsEffect(h.keyAnswer)
		last := b.winner(h.who, list)
		if len(list) > 2 && h.until.Sub(h.at) < watchEvery && (last < 0 || !h.at.Equal(list[last].at)) {
			continue // one of many tries
		}
		holder := h.who + " on " + h.app
		b.record(
			CaseEvent{At: h.at, Until: h.until, Lane: h.lane, Kind: Standing, Who: holder, TTL: h.lease},
			say("says.has-key", "server", h.lane, "who", on(holder)),
		)
	}
}

// winner returns the index of the last reply of one server before a customer had the lock, or of the last one if it
// never had it; -1 if there is none.
func (b *Testbed) winner(who string, list []keyAnswer) int {
	last := len(list) - 1
	for _, s := range b.told[b.SKU+"."+who] {
		if s.Kind != "acquired" {
			continue
		}
		for last > 0 && list[last].at.After(s.at()) {
			last--
		}
		break
	}
	return last
}

// beforeItsEffect moves a reply that was recorded late to just before its customer had the lock.
func (b *Testbed) beforeItsEffect(a keyAnswer) keyAnswer {
	for _, s := range b.told[b.SKU+"."+a.who] {
		if s.Kind == "acquired" && s.at().After(a.before) && s.at().Before(a.at) {
			a.at = s.at().Add(-time.Microsecond)
		}
	}
	return a
}

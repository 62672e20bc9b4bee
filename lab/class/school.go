package class

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits for students.
const (
	maxStudents = 200
	maxSeats    = 100 // of one address: enough for a class behind one router, but half at most for one computer
	maxName     = 12  // characters: as many as the wall shows
	buysEach    = 2   // a second, for one phone
	buysAll     = 200 // a second, for all
	ownShown    = 5   // latest requests that a student sees
	maxKey      = 40  // characters of a purchase's key
	schoolEvery = 500 * time.Millisecond
	choices     = 3 // of a vote: yes, no, unsure
)

// A school is the students' page, on a separate listener that serves nothing else. A phone can name neither a strategy
// nor a SKU, and can pause nothing, because the class makes the request.
type school struct {
	*site
	class *Class
	code  string // part of the address in the QR code

	mu       sync.Mutex
	students map[string]*student // by cookie
	all      *bucket
}

type student struct {
	number    int
	from      netip.Prefix // the address that joined
	name      string
	own       []purchase // oldest first
	bucket    *bucket
	endStream context.CancelFunc

	pressing sync.Mutex
}

// A purchase of a phone.
type purchase struct {
	req string // the request
	key string // the phone's name for it; empty: none
}

const studentCookie = "student"

func openSchool(c *Class, addr string) (*school, error) {
	code := strings.ToLower(rand.Text()[:8]) // 40 random bits that a person can type
	s := &school{class: c, code: code, students: make(map[string]*student), all: newBucket(buysAll)}
	var err error
	s.site, err = openSite(addr, s.mux())
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *school) url() string { return "http://" + s.addr() + "/join#" + s.code }

func (s *school) mux() http.Handler {
	mux := pageMux("/join", "join.html", "join.css", "join.js")
	mux.HandleFunc("POST /join", s.join)
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		if who := s.who(r); who != nil {
			answer(w, http.StatusOK, s.viewFor(who))
			return
		}
		answer(w, http.StatusOK, map[string]int{"number": 0}) // not joined yet
	})
	mux.HandleFunc("GET /events", s.own(s.serve))
	mux.HandleFunc("POST /buy", s.own(s.buy))
	mux.HandleFunc("POST /vote", s.own(s.vote))
	return mux
}

// who returns the student of a request's cookie, or nil.
func (s *school) who(r *http.Request) *student {
	cookie, err := r.Cookie(studentCookie)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.students[cookie.Value]
}

// own calls next with the student of the request's cookie.
func (s *school) own(next func(http.ResponseWriter, *http.Request, *student)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := s.who(r)
		if who == nil {
			refuse(w, http.StatusUnauthorized, "join")
			return
		}
		next(w, r, who)
	}
}

// goodName reports whether a name can be shown on the wall: 1 to 12 printable characters.
func goodName(name string) bool {
	n := utf8.RuneCountInString(name)
	return n >= 1 && n <= maxName && printable(name)
}

// printable reports whether a text can be shown.
func printable(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func (s *school) join(w http.ResponseWriter, r *http.Request) {
	var in struct{ Code, Name string }
	if !decode(r, &in) {
		refuse(w, http.StatusBadRequest, "body")
		return
	}
	in.Name = strings.TrimSpace(in.Name)
	switch {
	case !same(s.code, strings.ToLower(in.Code)):
		refuse(w, http.StatusForbidden, "code")
		return
	case !goodName(in.Name):
		refuse(w, http.StatusBadRequest, "name")
		return
	}
	if seated := s.who(r); seated != nil {
		answer(w, http.StatusOK, map[string]int{"number": seated.number})
		return
	}
	who := &student{name: in.Name, from: clientOf(r), bucket: newBucket(buysEach), endStream: func() {}}
	id := rand.Text()
	n, refusal := s.seat(who, id)
	if refusal != nil {
		refuseWith(w, http.StatusTooManyRequests, refusal.Field, refusal.said)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: studentCookie, Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	s.class.note(RunEvent{Kind: crowd, Crowd: n})
	answer(w, http.StatusOK, map[string]int{"number": who.number})
}

// seat gives a student a seat, and returns the number of seats taken.
func (s *school) seat(who *student, id string) (taken int, refusal *InputError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	beside := 0
	for _, other := range s.students {
		if other.from == who.from {
			beside++
		}
	}
	switch {
	case len(s.students) >= maxStudents:
		return 0, wrong("full", "full")
	case beside >= maxSeats:
		return 0, wrong("seats", "seats", "most", maxSeats)
	}
	who.number = len(s.students) + 1
	s.students[id] = who
	return len(s.students), nil
}

// clientOf returns the client's address, or for IPv6 its /64 network, in which one computer can use any address.
func clientOf(r *http.Request) netip.Prefix {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // net/http sets it
	from := at.Addr().Unmap().WithZone("")
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	network, _ := from.Prefix(bits)
	return network
}

// buy sells to a student, in the current run.
//
// A phone sends a key with each purchase. A repeated key, after a second press or a lost reply, is sent with the
// Idempotency-Key of the first request, so that it sells nothing more.
func (s *school) buy(w http.ResponseWriter, r *http.Request, who *student) {
	var in struct{ Key string }
	if !decode(r, &in) || len(in.Key) > maxKey {
		refuse(w, http.StatusBadRequest, "body")
		return
	}
	if !who.bucket.take() || !s.all.take() {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "too_fast")
		return
	}
	// Presses of one phone are serialised, so that the second finds the first.
	who.pressing.Lock()
	defer who.pressing.Unlock()
	s.mu.Lock()
	known := slices.Clone(who.own)
	s.mu.Unlock()
	again, id := "", ""
	for _, one := range known {
		if in.Key != "" && one.key == in.Key {
			again = one.req // the latest: that of an earlier run is another purchase
		}
	}
	if again != "" {
		id = s.class.fire(shot{who: who.name, again: again, run: runOf(again)})
	}
	if id != "" {
		in.Key = "" // the first request keeps the key
	} else {
		id = s.class.fire(shot{who: who.name})
	}
	if id == "" {
		refuse(w, http.StatusConflict, "no_run")
		return
	}
	s.mu.Lock()
	who.own = append(known, purchase{id, in.Key})
	who.own = who.own[max(0, len(who.own)-ownShown):]
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]int{"n": numberOf(id)})
}

func (s *school) vote(w http.ResponseWriter, r *http.Request, who *student) {
	var in struct{ Choice *int }
	switch {
	case !decode(r, &in) || in.Choice == nil || *in.Choice < 0 || *in.Choice >= choices:
		refuse(w, http.StatusBadRequest, "choice")
	case !who.bucket.take():
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "too_fast")
	case !s.class.cast(who.number, *in.Choice):
		refuse(w, http.StatusConflict, "no_vote")
	default:
		answer(w, http.StatusOK, map[string]bool{"ok": true})
	}
}

// A phoneView has the data for a phone.
type phoneView struct {
	Number   int              `json:"number"`
	Name     string           `json:"name"`
	Run      int              `json:"run"` // 0: none yet
	Strategy string           `json:"strategy,omitempty"`
	Scene    string           `json:"scene,omitempty"`
	Known    bool             `json:"known"`
	Initial  int64            `json:"initial"`
	Written  int64            `json:"written"`
	Sold     int64            `json:"sold"`
	Own      map[int]phoneBuy `json:"own"` // by number
	Voting   bool             `json:"voting"`
	About    string           `json:"about,omitempty"`
	Asked    string           `json:"asked,omitempty"`
	Voted    *int             `json:"voted,omitempty"`
	Verdict  string           `json:"code"` // empty while a vote is open
	Oversold int64            `json:"oversold"`
	Lost     int64            `json:"lost"`
}

type phoneBuy struct {
	Phase   string `json:"phase"`
	Read    *int64 `json:"read,omitempty"`
	Wrote   *int64 `json:"wrote,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Twin    bool   `json:"twin,omitempty"`
	// With names the other orders that read the same version: the customer, or the number of the request.
	With []string `json:"with,omitempty"`
	// Replayed is true for a repeat, which sold nothing.
	Replayed bool `json:"replayed,omitempty"`
}

func (s *school) viewFor(who *student) phoneView {
	s.mu.Lock()
	own := slices.Clone(who.own)
	s.mu.Unlock()
	v := phoneView{Number: who.number, Name: who.name, Own: map[int]phoneBuy{}}
	s.class.look(func(state *State) {
		verdict := state.Verdict()
		v.Run = state.run
		v.Strategy, v.Scene = state.plan().Strategy, state.plan().Scene
		for _, one := range own {
			if t := state.token(one.req); t != nil {
				v.Own[t.N] = phoneBuy{
					t.Phase, t.Read, t.Wrote, t.Outcome, t.Twin, state.names(t.With), t.Replayed,
				}
			}
		}
		v.Verdict, v.Oversold, v.Lost = verdict.Code, verdict.Oversold, verdict.Lost
		v.Known, v.Initial, v.Written, v.Sold = verdict.Known, verdict.Initial, verdict.Written, verdict.Sold
	})
	v.Voted = s.class.voteOf(who.number)
	vote := s.class.voting()
	if v.Voting, v.About, v.Asked = vote.On, vote.About, vote.Asked; v.Voting {
		v.Verdict, v.Oversold, v.Lost, v.Known = "", 0, 0, false // they would answer the question
	}
	return v
}

// serve streams a phone's view, at most twice a second. A phone has one stream: a new one ends the one before, of which
// phones do not tell that it has ended.
func (s *school) serve(w http.ResponseWriter, r *http.Request, who *student) {
	ctx, end := context.WithCancel(r.Context())
	defer end()
	s.mu.Lock()
	who.endStream()
	who.endStream = end
	s.mu.Unlock()
	s.class.stream(w, r.WithContext(ctx), schoolEvery, func() any { return s.viewFor(who) })
}

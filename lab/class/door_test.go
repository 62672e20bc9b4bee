package class

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// A visitor is a browser without a screen.
type visitor struct {
	t      *testing.T
	base   string
	client *http.Client
}

func visit(t *testing.T, base string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t, base, &http.Client{
		Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute,
	}}
}

// ask sends a request as a page of the same origin does, with changes.
func (v *visitor) ask(method, path, body string, change ...func(*http.Request)) (status int, text string) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", v.base)
	for _, f := range change {
		f(req)
	}
	res, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	if !strings.Contains(res.Header.Get("Content-Security-Policy"), "default-src 'self'") {
		v.t.Errorf("%s %s: no policy", method, path)
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		v.t.Fatal(err)
	}
	return res.StatusCode, string(bytes.TrimSpace(content))
}

func (c *Class) wallBase() string   { return "http://" + c.wall.addr() }
func (c *Class) schoolBase() string { return "http://" + c.school.addr() }

// phone joins the class.
func phone(t *testing.T, c *Class, name string) *visitor {
	t.Helper()
	v := visit(t, c.schoolBase())
	body, err := json.Marshal(map[string]string{"code": c.school.code, "name": name})
	if err != nil {
		t.Fatal(err)
	}
	if status, text := v.ask("POST", "/join", string(body)); status != 200 {
		t.Fatalf("%s cannot join: %d %s", name, status, text)
	}
	return v
}

// doors opens the wall and the students' page of a class that has no servers.
func doors(t *testing.T) *Class {
	t.Helper()
	none, err := stack.Start(t.Context(), stack.Options{Options: server.Options{Parent: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	c := &Class{
		o: Options{Bind: "127.0.0.1:0"}, stack: none, board: newBoard(newRecorder("")),
		catalog: []loadtest.Strategy{{Name: "none", Stores: []string{"redis"}}},
	}
	c.ctx, c.end = context.WithCancel(t.Context())
	if err := c.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Nothing on the students' listener but what students need, and nothing on either for whoever has no cookie, another
// Host or another Origin. What is refused is refused in both languages.
func TestDoorsAreShut(t *testing.T) {
	c := doors(t)
	student := phone(t, c, "小明")
	for _, path := range []string{
		"/", "/wall.html", "/wall.js", "/view.js", "/api/do", "/api/stream", "/api/class", "/api/enter",
		"/api/join.png", "/api/replay", "/api/replay.html",
		"/v1/stock/stock", "/v1/lab/pauses", "/v1/lab/steps", "/v1/locks/none/stock", "/metrics", "/deduct_stock",
		"/join/../api/do", "/%2e%2e/api/do", "/debug/pprof/",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			if status, text := student.ask(method, path, "{}"); status != 404 && status != 405 {
				t.Errorf("a student gets %d from %s %s: %s", status, method, path, text)
			}
		}
	}
	evil := func(r *http.Request) { r.Host = "evil.example:80" }
	foreign := func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }
	none := func(r *http.Request) { r.Header.Del("Origin") }
	fire := `{"do":"fire","plan":{"strategy":"none","store":"redis","stock":1,"requests":1}}`
	teacher, stranger := visit(t, c.wallBase()), visit(t, c.wallBase())
	token := fmt.Sprintf(`{"token":%q}`, c.wall.token)
	for _, row := range []struct {
		who                *visitor
		what, method, path string
		body               string
		change             func(*http.Request)
		status             int
	}{
		{stranger, "no cookie", "POST", "/api/do", fire, nil, 401},
		{stranger, "no cookie", "GET", "/api/stream", "", nil, 401},
		{stranger, "no cookie", "GET", "/api/class", "", nil, 401},
		{stranger, "no cookie", "GET", "/api/replay", "", nil, 401},
		{stranger, "no cookie", "GET", "/api/replay.html", "", nil, 401},
		{stranger, "a wrong cookie", "POST", "/api/do", fire, func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: wallCookie, Value: "x"})
		}, 401},
		{stranger, "a wrong token", "POST", "/api/enter", `{"token":"x"}`, nil, 401},
		{stranger, "no token", "POST", "/api/enter", `{"token":""}`, nil, 401},
		{teacher, "the token from elsewhere", "POST", "/api/enter", token, foreign, 403},
		{teacher, "the token", "POST", "/api/enter", token, nil, 200},
		{teacher, "another host", "POST", "/api/do", fire, evil, 421},
		{teacher, "another host", "GET", "/", "", evil, 421},
		{teacher, "another origin", "POST", "/api/do", fire, foreign, 403},
		{teacher, "no origin", "POST", "/api/do", fire, none, 403},
		{teacher, "a form", "POST", "/api/do", fire, func(r *http.Request) {
			r.Header.Set("Content-Type", "text/plain")
		}, 400},
		{teacher, "no run to replay", "GET", "/api/replay", "", nil, 404},
		{student, "another host", "GET", "/state", "", evil, 421},
		{student, "another origin", "POST", "/buy", "{}", foreign, 403},
		{student, "no run", "POST", "/buy", "{}", nil, 409},
		{student, "a long name of a purchase", "POST", "/buy", `{"key":"` + strings.Repeat("x", 41) + `"}`, nil, 400},
		{student, "no vote", "POST", "/vote", `{"choice":1}`, nil, 409},
		{student, "a choice that is none", "POST", "/vote", `{"choice":3}`, nil, 400},
		{
			student, "a long name", "POST", "/join",
			fmt.Sprintf(`{"code":%q,"name":%q}`, c.school.code, strings.Repeat("名", 21)), nil, 400,
		},
		{
			student, "an unprintable name", "POST", "/join",
			fmt.Sprintf(`{"code":%q,"name":"a\u0007"}`, c.school.code), nil, 400,
		},
		{student, "a wrong code", "POST", "/join", `{"code":"x","name":"x"}`, nil, 403},
		{teacher, "what the cookie is for", "POST", "/api/do", `{"do":"vote","on":true}`, nil, 200},
		{phone(t, c, "y"), "a vote that is open", "POST", "/vote", `{"choice":1}`, nil, 200},
	} {
		change := row.change
		if change == nil {
			change = func(*http.Request) {}
		}
		if status, text := row.who.ask(row.method, row.path, row.body, change); status != row.status {
			t.Errorf("%s: %s %s: %d %s, want %d", row.what, row.method, row.path, status, text, row.status)
		} else if status != http.StatusOK && row.path != "/" {
			bilingual(t, row.what, text)
		}
	}
	for _, wrong := range []string{
		`{"do":"` + strings.Repeat("x", 2000) + `"}`, `{"do":"step","sku":"x"}`, `{"do":"what"}`, `{"do":"fire"}`,
		`{"do":"fire","plan":{"strategy":"none","stock":1,"requests":101}}`,
		`{"do":"fire","plan":{"strategy":"none","stock":1,"rate":201}}`,
		`{"do":"fire","plan":{"strategy":"none","stock":1,"rate":200,"seconds":51}}`,
		`{"do":"fire","plan":{"strategy":"x","stock":1,"requests":1}}`,
		`{"do":"fire","plan":{"strategy":"none","stock":0}}`,
		`{"do":"stop"}`, `{"do":"scene","scene":"nix"}`, `{"do":"again","req":"r9.9"}`, `{"do":"go","req":"r9.9"}`,
		`{"do":"go","req":"../locks"}`, `{"do":"hold","req":"r1.1","point":"nowhere"}`,
		`{"do":"fault","server":"nginx","act":"freeze"}`,
	} {
		status, text := teacher.ask("POST", "/api/do", wrong)
		if status != http.StatusBadRequest {
			t.Errorf("%.60s: %d %s", wrong, status, text)
		}
		bilingual(t, wrong, text)
	}
	origin, err := url.Parse(c.wallBase())
	if err != nil {
		t.Fatal(err)
	}
	if cookies := teacher.client.Jar.Cookies(origin); len(cookies) != 1 {
		t.Errorf("%v", cookies)
	}
}

// A phone presses twice a second at most, and all together so often that instances keep up. Nobody pays for another.
func TestPhonesHaveALimit(t *testing.T) {
	s := &school{class: &Class{board: newBoard(newRecorder(""))}, all: newBucket(6)}
	press := func(who *student, times int) (refused int) {
		for range times {
			request, reply := httptest.NewRequest("POST", "/buy", strings.NewReader("{}")), httptest.NewRecorder()
			request.Header.Set("Content-Type", "application/json")
			if s.buy(reply, request, who); reply.Code == http.StatusTooManyRequests {
				refused++
			}
		}
		return refused
	}
	one := func() *student { return &student{bucket: newBucket(buysEach)} }
	quick, other := one(), one()
	if n := press(quick, 4); n != 2 {
		t.Errorf("of 4 presses of one phone %d were refused, want 2", n)
	}
	if n := press(other, 2); n != 0 {
		t.Errorf("of 2 presses of another phone %d were refused", n)
	}
	if n := press(one(), 2) + press(one(), 2); n != 2 {
		t.Errorf("with 6 of all a second, of the last 4 presses %d were refused, want 2", n)
	}
	if status := s.castBy(other); status != http.StatusTooManyRequests {
		t.Errorf("a vote of a phone that has pressed twice: %d", status)
	}
}

// One computer with the code leaves half of the seats to others, and keeps its own seat when it joins again.
func TestSeatsOfOneComputer(t *testing.T) {
	s := &school{class: &Class{board: newBoard(newRecorder(""))}, code: "c", students: map[string]*student{}}
	join := func(from string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
		request := httptest.NewRequest("POST", "/join", strings.NewReader(`{"code":"c","name":"x"}`))
		request.Header.Set("Content-Type", "application/json")
		request.RemoteAddr = from
		for _, cookie := range cookies {
			request.AddCookie(cookie)
		}
		reply := httptest.NewRecorder()
		s.join(reply, request)
		return reply
	}
	all := func(times int, from func(i int) string) (joined int, last *httptest.ResponseRecorder) {
		for i := range times {
			if last = join(from(i)); last.Code == http.StatusOK {
				joined++
			}
		}
		return joined, last
	}
	first := join("192.168.1.7:1")
	n, last := all(200, func(i int) string { return fmt.Sprintf("192.168.1.7:%d", 2+i) })
	if n != maxSeats-1 || last.Code != http.StatusTooManyRequests {
		t.Errorf("one computer has %d seats, and then gets %d", n+1, last.Code)
	}
	bilingual(t, "one computer", last.Body.String())
	if said := last.Body.String(); !strings.Contains(said, "100 have joined") || !strings.Contains(said, "已有 100 人") {
		t.Error(said)
	}
	if again := join("192.168.1.7:9", first.Result().Cookies()...); again.Code != http.StatusOK ||
		!strings.Contains(again.Body.String(), `"number":1}`) || len(s.students) != maxSeats {
		t.Errorf("who has a seat and joins again: %d %s", again.Code, again.Body)
	}
	if n, _ := all(60, func(i int) string { return fmt.Sprintf("192.168.2.%d:1", i) }); n != 60 {
		t.Errorf("of 60 phones beside it %d joined", n)
	}
	if n, last = all(100, func(i int) string { return fmt.Sprintf("[fe80::%d%%eth0]:1", i+1) }); n != 40 ||
		!strings.Contains(last.Body.String(), "The class is full") {
		t.Errorf("%d more joined, and then: %s", n, last.Body)
	}
	clear(s.students)
	if n, _ := all(150, func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i+1) }); n != maxSeats {
		t.Errorf("a computer with a network of IPv6 has %d seats", n)
	}
}

func (s *school) castBy(who *student) (status int) {
	request, reply := httptest.NewRequest("POST", "/vote", strings.NewReader(`{"choice":1}`)), httptest.NewRecorder()
	request.Header.Set("Content-Type", "application/json")
	s.vote(reply, request, who)
	return reply.Code
}

// A student has one vote, can change it while the vote is open, and begins anew with the next.
func TestVotes(t *testing.T) {
	c := &Class{board: newBoard(newRecorder(""))}
	counts := func() (text string) {
		c.look(func(s *State) { text = fmt.Sprint(s.latest[voting].Votes, s.latest[voting].On) })
		return text
	}
	for i, step := range []struct {
		do   func() bool
		ok   bool
		want string
	}{
		{func() bool { return c.cast(1, 0) }, false, "[] false"},
		{func() bool { _ = c.Ask(Question{}); return true }, true, "[0 0 0] true"},
		{func() bool { return c.cast(1, 0) }, true, "[1 0 0] true"},
		{func() bool { return c.cast(2, 1) }, true, "[1 1 0] true"},
		{func() bool { return c.cast(1, 2) }, true, "[0 1 1] true"},
		{func() bool { _ = c.CloseVote(nil); return true }, true, "[0 1 1] false"},
		{func() bool { return c.cast(3, 2) }, false, "[0 1 1] false"},
		{func() bool { _ = c.CloseVote(nil); return true }, true, "[0 1 1] false"},
		{func() bool { _ = c.Ask(Question{}); return true }, true, "[0 0 0] true"},
	} {
		if ok := step.do(); ok != step.ok || counts() != step.want {
			t.Errorf("step %d: %v, %s, want %v, %s", i, ok, counts(), step.ok, step.want)
		}
	}
}

// The wall itself is for this computer only.
func TestTheWallIsOnLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "192.0.2.1:80", "[::]:0", "localhost:0"} {
		c := &Class{o: Options{Addr: addr}}
		if err := c.listen(); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// rest waits until all requests are answered, the instances have told all of them, and the stock was read after that.
func (c *Class) rest(t *testing.T) (v WallVerdict) {
	t.Helper()
	servertest.Eventually(t, time.Minute, "the run is over", func() (over bool, _ string) {
		c.mu.Lock()
		left := c.left
		c.mu.Unlock()
		c.look(func(s *State) {
			v = s.Verdict()
			told := true
			for _, r := range s.reqs {
				told = told && len(r.steps) > 0 && r.steps[len(r.steps)-1].Kind == "ended"
			}
			over = told && left == 0 && v.Open == 0 && s.sums().waiting+s.sums().inside == 0 && s.has(allFired) &&
				s.ofRun[stockSeen].Seq > s.ofRun[allFired].Seq
		})
		return over, fmt.Sprintf("%+v", v)
	})
	return v
}

// Sixty phones join and buy. Each is told what became of its own.
func TestSixtyPhones(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	c := lesson(t)
	var phones []*visitor
	for i := range 60 {
		phones = append(phones, phone(t, c, fmt.Sprintf("phone %d", i)))
	}
	var all sync.WaitGroup
	for run := 1; ; run++ {
		if _, err := c.begin(t.Context(), RunPlan{Strategy: "redis-watchdog", Store: "redis", Stock: 36}); err != nil {
			t.Fatal(err)
		}
		for i, p := range phones {
			all.Go(func() {
				if status, text := p.ask("POST", "/buy", "{}"); status != 200 {
					t.Errorf("phone %d cannot buy: %d %s", i, status, text)
				}
			})
		}
		all.Wait()
		v, down := c.rest(t), false
		c.look(func(s *State) {
			for _, r := range s.reqs {
				down = down || r.answered != nil && r.answered.Outcome == "backend_down"
			}
		})
		if down && run < 5 {
			continue // a busy computer kept a sound server from answering a probe: all try again
		}
		if v.Code != "kept" || v.Sold != 36 {
			t.Errorf("%+v", v)
		}
		break
	}
	sold := 0
	for i, p := range phones {
		_, text := p.ask("GET", "/state", "")
		var view phoneView
		if err := json.Unmarshal([]byte(text), &view); err != nil || len(view.Own) != 1 ||
			view.Name != fmt.Sprintf("phone %d", i) {
			t.Errorf("phone %d sees %v %s", i, err, text)
		}
		for _, buy := range view.Own {
			switch buy.Outcome {
			case accepted:
				sold++
			case "sold_out":
			default:
				t.Errorf("phone %d: %+v", i, buy)
			}
		}
	}
	if sold != 36 {
		t.Errorf("%d phones have one, want 36", sold)
	}
}

// Whatever a class has started, it ends: servers that are frozen, dead or starting, a rate that is on, a page that
// looks, and the folder with their files.
func TestNothingIsLeft(t *testing.T) {
	c := own(t)
	teacher := visit(t, c.wallBase())
	if status, _ := teacher.ask("POST", "/api/enter", fmt.Sprintf(`{"token":%q}`, c.wall.token)); status != 200 {
		t.Fatal(status)
	}
	stream, err := teacher.client.Get(c.wallBase() + "/api/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	slow := RunPlan{Strategy: "redis-watchdog", Store: "redis", Stock: 9, ThinkMS: 9000, Rate: 20}
	if err := c.Fire(slow); err != nil {
		t.Fatal(err)
	}
	for _, fault := range [][2]string{{"app-1", "freeze"}, {"app-2", "kill"}, {"app-2", "start"}, {"redis", "delay"}} {
		if err := c.Fault(fault[0], fault[1]); err != nil {
			t.Fatal(err)
		}
	}
	if left := leftOf(c); errors.Join(left...) != nil {
		t.Error(errors.Join(left...))
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream of the page ends with %v", err)
	}
	for _, base := range []string{c.wallBase(), c.schoolBase()} {
		if res, err := teacher.client.Get(base + "/"); err == nil {
			res.Body.Close()
			t.Errorf("%s still answers", base)
		}
	}
}

package class

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/stack/stacktest"
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

// Nothing on the students' listener but what students need, and nothing on either for whoever has no cookie, another
// Host or another Origin.
func TestDoorsAreShut(t *testing.T) {
	c := lesson(t)
	student := phone(t, c, "小明")
	for _, path := range []string{
		"/", "/wall.html", "/wall.js", "/view.js", "/api/do", "/api/stream", "/api/class", "/api/enter",
		"/api/join.svg",
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
		{teacher, "a long body", "POST", "/api/do", `{"do":"` + strings.Repeat("x", 2000) + `"}`, nil, 400},
		{teacher, "an unknown field", "POST", "/api/do", `{"do":"step","sku":"x"}`, nil, 400},
		{
			teacher, "too many requests", "POST", "/api/do",
			`{"do":"fire","plan":{"strategy":"none","stock":1,"requests":101}}`, nil, 400,
		},
		{
			teacher, "an unknown strategy", "POST", "/api/do",
			`{"do":"fire","plan":{"strategy":"x","stock":1,"requests":1}}`, nil, 400,
		},
		{teacher, "a path in place of a request", "POST", "/api/do", `{"do":"go","req":"../locks"}`, nil, 400},
		{teacher, "a request of nobody", "POST", "/api/do", `{"do":"go","req":"r9.9"}`, nil, 400},
		{teacher, "nginx frozen", "POST", "/api/do", `{"do":"fault","server":"nginx","act":"freeze"}`, nil, 400},
		{student, "another host", "GET", "/state", "", evil, 421},
		{student, "another origin", "POST", "/buy", "{}", foreign, 403},
		{student, "no run", "POST", "/buy", "{}", nil, 409},
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
		{teacher, "what the cookie is for", "POST", "/api/do", fire, nil, 200},
	} {
		change := row.change
		if change == nil {
			change = func(*http.Request) {}
		}
		if status, text := row.who.ask(row.method, row.path, row.body, change); status != row.status {
			t.Errorf("%s: %s %s: %d %s, want %d", row.what, row.method, row.path, status, text, row.status)
		}
	}
	origin, err := url.Parse(c.wallBase())
	if err != nil {
		t.Fatal(err)
	}
	if cookies := teacher.client.Jar.Cookies(origin); len(cookies) != 1 {
		t.Errorf("%v", cookies)
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

// Twenty phones buy and vote. Each is told what became of its own, and one that is too quick is told so.
func TestTwentyPhones(t *testing.T) {
	c := lesson(t)
	var phones []*visitor
	for i := range 20 {
		phones = append(phones, phone(t, c, fmt.Sprintf("phone %d", i)))
	}
	c.Vote(true)
	var all sync.WaitGroup
	for i, p := range phones {
		all.Go(func() {
			if status, text := p.ask("POST", "/vote", fmt.Sprintf(`{"choice":%d}`, i%3)); status != 200 {
				t.Errorf("phone %d cannot vote: %d %s", i, status, text)
			}
		})
	}
	all.Wait()
	c.Vote(false)
	c.look(func(s *State) {
		if votes := s.latest[voting].Votes; fmt.Sprint(votes) != "[7 7 6]" {
			t.Errorf("votes %v, want 7, 7 and 6", votes)
		}
	})
	if err := c.begin(t.Context(), Plan{Strategy: "redis-watchdog", Store: "redis", Stock: 12}); err != nil {
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
	stacktest.Eventually(t, time.Minute, "the verdict comes", func() (bool, string) {
		var v Verdict
		c.look(func(s *State) { v = s.Verdict() })
		return v.Code == "kept" && v.Sold == 12, fmt.Sprintf("%+v", v)
	})
	sold := 0
	for i, p := range phones {
		_, text := p.ask("GET", "/state", "")
		var view phoneView
		if err := json.Unmarshal([]byte(text), &view); err != nil || len(view.Own) != 1 ||
			view.Name != fmt.Sprintf("phone %d", i) || view.Voted == nil || *view.Voted != i%3 {
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
	if sold != 12 {
		t.Errorf("%d phones have one, want 12", sold)
	}
	quick, refused := phones[0], 0
	for range 10 {
		if status, _ := quick.ask("POST", "/buy", "{}"); status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("ten buys in a row of one phone went through")
	}
}

package class

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"example.com/stock/internal/stack"
)

//go:embed page
var pages embed.FS

// pageMux serves a page at a path, with its own files and those of all pages.
func pageMux(at string, names ...string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+at, asset(names[0]))
	for _, name := range append(names[1:], "words.js", "words.json", "theme.css", "icon.svg") {
		mux.HandleFunc("GET /"+name, asset(name))
	}
	return mux
}

// wallMux serves the page of the wall. It is public: what it shows and does is not.
func wallMux() *http.ServeMux {
	return pageMux("/{$}",
		"wall.html", "wall.css", "wall.js", "store.js", "pens.js", "picture.js", "chart.js", "player.js")
}

// asset serves a part of a page.
func asset(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		content, err := pageFile(name)
		if err != nil {
			refuse(w, http.StatusInternalServerError, "failed")
			return
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	}
}

// pageFile returns an embedded file, or the texts of the pages.
func pageFile(name string) ([]byte, error) {
	if name == "words.json" {
		return wordsJSON()
	}
	return pages.ReadFile("page/" + name)
}

// A site is a listener with the pages on it.
type site struct {
	token  string // required to open the site
	host   string
	server *http.Server
	served chan struct{}
	end    context.CancelFunc // ends the streams
}

func (s *site) addr() string { return s.host }

// openSite listens and serves. Streams end with the contexts of their requests.
func openSite(addr string, handler http.Handler) (*site, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	hosts, first := hostsOf(l)
	s := &site{host: first, served: make(chan struct{}), end: end}
	s.server = &http.Server{
		Handler: guard(hosts, handler), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(l) // until close
	}()
	return s, nil
}

func (s *site) close() error {
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	<-s.served
	return err
}

// listen opens the wall, and the students' page if configured.
func (c *Class) listen() (err error) {
	addr := c.o.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	if err := checkLoopback(addr); err != nil {
		return err
	}
	token := rand.Text()
	if c.wall, err = openSite(addr, c.ownMux(token)); err != nil {
		return err
	}
	c.wall.token = token
	if c.o.Bind != "" {
		c.school, err = openSchool(c, c.o.Bind)
	}
	return err
}

// checkLoopback returns an error unless addr is a loopback address.
func checkLoopback(addr string) error {
	if at, err := netip.ParseAddrPort(addr); err != nil || !at.Addr().IsLoopback() {
		return wrong("addr", "addr")
	}
	return nil
}

// wallCookie is the name of the wall's cookie.
const wallCookie = "wall"

// ownMux serves the wall of the class. Frames and controls need a cookie, which the page gets for the token in the
// fragment of the address. Browsers do not send the fragment.
func (c *Class) ownMux(token string) http.Handler {
	session := rand.Text()
	mux := wallMux()
	mux.HandleFunc("POST /api/enter", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Token string }
		if !decode(r, &in) || !same(token, in.Token) {
			refuse(w, http.StatusUnauthorized, "token")
			return
		}
		http.SetCookie(w, &http.Cookie{
			Name: wallCookie, Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
		answer(w, http.StatusOK, map[string]bool{"ok": true})
	})
	own := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			cookie, err := r.Cookie(wallCookie)
			if err != nil || !same(session, cookie.Value) {
				refuse(w, http.StatusUnauthorized, "token")
				return
			}
			next(w, r)
		}
	}
	mux.HandleFunc("GET /api/class", own(c.describe))
	mux.HandleFunc("GET /api/join.png", own(c.joinPicture))
	mux.HandleFunc("GET /api/replay", own(c.replay))
	mux.HandleFunc("GET /api/replay.html", own(c.export))
	mux.HandleFunc("GET /api/stream", own(c.serveFrames))
	mux.HandleFunc("POST /api/do", own(c.serveDo))
	return mux
}

// kept reads the current run so far.
func (c *Class) kept(w http.ResponseWriter) *Recording {
	text, err := c.recorder.read()
	if err != nil {
		refuse(w, http.StatusNotFound, "no_tape")
		return nil
	}
	r, err := ReadRecording(bytes.NewReader(text))
	if err != nil {
		refuse(w, http.StatusInternalServerError, "failed")
		return nil
	}
	r.Back = true
	return r
}

// replay replies with the current run's data for the player.
func (c *Class) replay(w http.ResponseWriter, _ *http.Request) {
	if r := c.kept(w); r != nil {
		answer(w, http.StatusOK, r)
	}
}

// export replies with the current run as one file.
func (c *Class) export(w http.ResponseWriter, _ *http.Request) {
	r := c.kept(w)
	if r == nil {
		return
	}
	r.Back, r.Lang = false, c.o.Lang
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="run.html"`)
	_ = r.WriteHTML(w) // an error truncates the file, which the browser reports
}

// describe replies with the choices of the wall.
func (c *Class) describe(w http.ResponseWriter, _ *http.Request) {
	type strategy struct {
		Name   string   `json:"name"`
		Stores []string `json:"stores"`
		Reason string   `json:"reason,omitempty"` // why it is unavailable
	}
	var strategies []strategy
	for _, s := range c.catalog {
		strategies = append(strategies, strategy{s.Name, s.Stores, s.Reason})
	}
	type scene struct {
		Name string `json:"name"`
		Key  string `json:"key"`
	}
	var list []scene
	for _, s := range scenes() {
		list = append(list, scene{s.name, s.key})
	}
	var servers, apps []string
	for _, app := range c.apps {
		apps = append(apps, app.Name)
	}
	for _, kind := range stack.Kinds() {
		if c.link[kind] != nil {
			servers = append(servers, string(kind))
		}
	}
	servers = append(servers, c.masters()...)
	answer(w, http.StatusOK, map[string]any{
		"strategies": strategies, "scenes": list, "apps": apps, "servers": servers, "missing": c.stack.Missing(),
		"join": c.JoinURL(), "lang": c.o.Lang,
	})
}

// An order is a command of the teacher.
type order struct {
	Do     string   `json:"do"`
	Plan   *RunPlan `json:"plan"`
	Scene  string   `json:"scene"`
	Req    string   `json:"req"`
	Point  string   `json:"point"`
	Server string   `json:"server"`
	Act    string   `json:"act"`
	On     bool     `json:"on"`
	Vote   Question `json:"vote"`
	Hands  []int    `json:"hands"`
}

// serveDo executes a command of the teacher.
func (c *Class) serveDo(w http.ResponseWriter, r *http.Request) {
	var o order
	if !decode(r, &o) {
		refuse(w, http.StatusBadRequest, "body")
		return
	}
	if err := c.do(o); err != nil {
		refuseFor(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]bool{"ok": true})
}

func (c *Class) do(o order) error {
	if (o.Do == "hold" || o.Do == "go" || o.Do == "again") && (runOf(o.Req) == 0 || numberOf(o.Req) == 0) {
		return wrong("req", "other_run")
	}
	switch o.Do {
	case "fire":
		if o.Plan == nil {
			return wrong("plan", "body")
		}
		return c.Fire(*o.Plan)
	case "stop":
		return c.StopRate()
	case "again":
		return c.Again(o.Req)
	case "more":
		if c.fire(shot{}) == "" {
			return wrong("do", "no_run")
		}
		return nil
	case "scene":
		return c.Play(o.Scene)
	case "hold":
		if !strings.Contains(","+everyPoint+",after_unlock,", ","+o.Point+",") || strings.Contains(o.Point, ",") {
			return wrong("point", "body")
		}
		return c.Hold(o.Req, o.Point)
	case "go":
		return c.Go(o.Req)
	case "pause":
		return c.Pause(o.On)
	case "step":
		return c.Step()
	case "fault":
		return c.Fault(o.Server, o.Act)
	case "vote":
		if o.On {
			return c.Ask(o.Vote)
		}
		return c.CloseVote(o.Hands)
	case "onward":
		c.Onward()
		return nil
	case "auto":
		c.Auto(o.On)
		return nil
	}
	return wrong("do", "body")
}

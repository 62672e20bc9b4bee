package class

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A Recording is a run that was kept: the frames that a page plays, one for each event, and the verdict.
type Recording struct {
	Frames  []Frame  `json:"frames"`
	Apps    []string `json:"apps"`
	Servers []string `json:"servers"`
	Lang    string   `json:"lang"`
	Verdict Verdict  `json:"-"`
}

// maxRecording bounds what ReadRecording reads: a run of a class has some hundred kilobytes.
const maxRecording = 64 << 20

// ReadRecording reads the file of a run: an event in each line. The error names the first line that is none.
func ReadRecording(r io.Reader) (*Recording, error) {
	var events []Event
	lines := bufio.NewScanner(io.LimitReader(r, maxRecording+1))
	lines.Buffer(nil, 1<<20)
	size, began := 0, false
	for n := 1; lines.Scan(); n++ {
		if size += len(lines.Bytes()); size > maxRecording {
			return nil, fmt.Errorf("the recording has more than %d MB", maxRecording>>20)
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		began = began || e.Kind == runBegan
		events = append(events, e)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !began {
		return nil, errors.New(`no line has kind "run": this is no recording of a class`)
	}
	return record(events), nil
}

// check returns an error if no class can have written e.
func (e *Event) check() error {
	switch {
	case e.At <= 0 || e.From == "" || e.Kind == "":
		return errors.New("an event has at, from and kind")
	case e.Kind == runBegan && e.Plan == nil:
		return errors.New("a run has a plan")
	case e.Kind == stockSeen && e.Stock == nil:
		return errors.New("stock is missing")
	}
	return nil
}

// record puts the events in the order of their times, which the State does not need but who looks does.
func record(events []Event) *Recording {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	s, shown := NewState(), View{}
	r := &Recording{Frames: []Frame{}, Apps: []string{}, Servers: []string{}}
	known := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, e := range events {
		s.Apply(e)
		view := s.View()
		if set := view.Diff(shown); len(set) > 0 {
			r.Frames = append(r.Frames, Frame{e.At, set})
		}
		shown = view
		switch {
		case e.From != class:
			known(&r.Apps, e.From)
		case e.Kind == standing && strings.HasPrefix(e.Server, "app-"):
			known(&r.Apps, e.Server)
		case e.Kind == standing:
			known(&r.Servers, e.Server)
		}
	}
	slices.Sort(r.Apps)
	slices.Sort(r.Servers)
	r.Verdict = s.Verdict()
	return r
}

// A Player shows a recording on this computer.
type Player struct{ site *site }

// Replay serves a recording on a loopback address. It starts nothing else. Close ends it.
func Replay(r *Recording, addr string) (*Player, error) {
	page, err := r.page()
	if err != nil {
		return nil, err
	}
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	s, err := openSite(addr, func(context.Context) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /{$}", asset("wall.html"))
		for _, name := range wallAssets() {
			mux.HandleFunc("GET /"+name, asset(name))
		}
		mux.HandleFunc("GET /api/class", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(page)
		})
		return mux
	})
	if err != nil {
		return nil, err
	}
	return &Player{s}, nil
}

// URL is where the player is.
func (p *Player) URL() string { return "http://" + p.site.addr() + "/" }

// Close ends the player.
func (p *Player) Close() error { return p.site.close() }

// page is what the page is told of a recording.
func (r *Recording) page() ([]byte, error) {
	return json.Marshal(struct {
		*Recording
		Replay     bool     `json:"replay"`
		Strategies []string `json:"strategies"`
		Scenes     []string `json:"scenes"`
	}{r, true, []string{}, []string{}})
}

var (
	moduleImport = regexp.MustCompile(`(?m)^import .*\n`)
	moduleExport = regexp.MustCompile(`(?m)^export `)
)

// WriteHTML writes a recording as one file that a browser opens without a server.
func (r *Recording) WriteHTML(w io.Writer) error {
	page, err := r.page()
	if err != nil {
		return err
	}
	var failed error
	read := func(name string) string {
		text, err := fs.ReadFile(pageFiles(), name)
		failed = errors.Join(failed, err)
		return string(text)
	}
	var script strings.Builder
	for _, name := range []string{"words.js", "view.js", "player.js", "wall.js"} {
		script.WriteString(moduleExport.ReplaceAllString(moduleImport.ReplaceAllString(read(name), ""), ""))
	}
	// In JSON, < inside of strings is written as \u003c, so that no text of a recording can end the element.
	var words, told bytes.Buffer
	json.HTMLEscape(&words, []byte(read("words.json")))
	json.HTMLEscape(&told, page)
	html := read("wall.html")
	if failed != nil {
		return failed
	}
	for _, part := range []struct{ from, to string }{
		{`<link rel="icon" href="icon.svg">`, ""},
		{`<link rel="stylesheet" href="theme.css">`, "<style>" + read("theme.css") + "</style>"},
		{`<link rel="stylesheet" href="wall.css">`, "<style>" + read("wall.css") + "</style>"},
		{
			`<script type="module" src="wall.js"></script>`,
			`<script type="application/json" id="words">` + words.String() + `</script>` +
				`<script type="application/json" id="recording">` + told.String() + `</script>`,
		},
		{"</body>", `<script type="module">` + script.String() + "</script>\n</body>"},
	} {
		if strings.Count(html, part.from) != 1 {
			return fmt.Errorf("the page has no %s", template.HTMLEscapeString(part.from))
		}
		html = strings.Replace(html, part.from, part.to, 1)
	}
	_, err = io.WriteString(w, html)
	return err
}

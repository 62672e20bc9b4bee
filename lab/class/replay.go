package class

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"example.com/stock/lab/diagram"
	"example.com/stock/loadtest"
)

// A Recording is a kept run: the frames that a page plays, one for each event, and the verdict.
type Recording struct {
	Frames  []Frame     `json:"frames"`
	Apps    []string    `json:"apps"`
	Lang    string      `json:"lang"`
	Replay  bool        `json:"replay"`         // true: the page plays it
	Back    bool        `json:"back,omitempty"` // the page can go back to the wall
	Verdict WallVerdict `json:"-"`
}

// maxFrames is the largest number of frames of a recording that has one for each event. One with more events has
// fewFrames: a frame of a long run costs more.
const (
	maxFrames = 8000
	fewFrames = 500
)

// maxRecording bounds what ReadRecording reads: a run of a class has some hundred kilobytes.
const maxRecording = 64 << 20

// ReadAny reads the file of a run of a class or a history of stock load, which it tells apart by the first bytes. lang
// is the initial language of the page: en or zh.
func ReadAny(r io.Reader, lang string) (*Recording, error) {
	in := bufio.NewReaderSize(r, 1<<12)
	head, err := in.Peek(1 << 9)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	read := ReadRecording
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte(`{"format":"`+loadtest.Format+`"`)) {
		read = ReadLoad
	}
	recording, err := read(in)
	if err != nil {
		return nil, err
	}
	recording.Lang = lang
	return recording, nil
}

// ReadRecording reads the file of a run, which has an event in each line. The error names the first invalid line.
func ReadRecording(r io.Reader) (*Recording, error) {
	var events []RunEvent
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
		var e RunEvent
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
		return nil, phrases.Error("no_recording")
	}
	return record(events, drawnLatest), nil
}

// check returns an error if e is not a valid event of a class.
func (e *RunEvent) check() error {
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

// record sorts the events by time, for viewers; the State does not need that. A page draws so many of the latest
// requests.
func record(events []RunEvent, drawn int) *Recording {
	slices.SortStableFunc(events, func(a, b RunEvent) int { return cmp.Compare(a.At, b.At) })
	s, shown := NewState(), View{}
	s.most = drawn
	r := &Recording{Frames: []Frame{}, Apps: []string{}, Replay: true}
	every := 1
	if len(events) > maxFrames {
		every = len(events) / fewFrames
	}
	for i, e := range events {
		s.Apply(e)
		if i%every == 0 || i == len(events)-1 {
			view := s.View()
			if set := view.Diff(shown); len(set) > 0 {
				r.Frames = append(r.Frames, Frame{e.At, set})
			}
			shown = view
		}
		app := e.From // empty if a foreign service does not say which instance it was
		if app == class {
			app = e.Server
		}
		instance := app != "" && (e.From != class || strings.HasPrefix(app, "app-"))
		if instance && !slices.Contains(r.Apps, app) {
			r.Apps = append(r.Apps, app)
		}
	}
	slices.Sort(r.Apps)
	r.Verdict = s.Verdict()
	return r
}

// A Player shows a run on this computer.
type Player struct{ at *site }

// Replay serves a run on a loopback address. The caller must close the Player.
func Replay(r *Recording, addr string) (*Player, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	page, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	mux := wallMux()
	mux.HandleFunc("GET /api/class", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(page)
	})
	at, err := openSite(addr, mux)
	if err != nil {
		return nil, err
	}
	return &Player{at}, nil
}

// URL returns the address of the player.
func (p *Player) URL() string { return "http://" + p.at.addr() + "/" }

// Close ends the player.
func (p *Player) Close() error { return p.at.close() }

var (
	moduleImport = regexp.MustCompile(`(?m)^import [^']*'[^']*'\n`)
	moduleExport = regexp.MustCompile(`(?m)^export `)
)

// WriteHTML writes a recording as one file that a browser opens without a server.
func (r *Recording) WriteHTML(w io.Writer) error {
	page, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var failed error
	read := func(name string) string {
		text, err := pageFile(name)
		failed = errors.Join(failed, err)
		return string(text)
	}
	var script strings.Builder
	// Each after its imports.
	for _, name := range []string{"words.js", "store.js", "pens.js", "chart.js", "picture.js", "player.js", "wall.js"} {
		script.WriteString(moduleExport.ReplaceAllString(moduleImport.ReplaceAllString(read(name), ""), ""))
	}
	// HTMLEscape writes < in JSON strings as \u003c, so that no text of a recording can end the element.
	var words, told bytes.Buffer
	json.HTMLEscape(&words, []byte(read("words.json")))
	json.HTMLEscape(&told, page)
	html := read("wall.html")
	type part struct{ from, to string }
	const charset = `<meta charset="utf-8">`
	parts := []part{
		{`<link rel="icon" href="icon.svg">`, ""},
		{charset, charset + "\n" + `<meta http-equiv="Content-Security-Policy" content="` +
			template.HTMLEscapeString(diagram.Policy(script.String())) + `">`},
	}
	for _, name := range []string{"theme.css", "wall.css"} {
		parts = append(parts, part{`<link rel="stylesheet" href="` + name + `">`, "<style>" + read(name) + "</style>"})
	}
	parts = append(parts,
		part{
			`<script type="module" src="wall.js"></script>`,
			`<script type="application/json" id="words">` + words.String() + `</script>` +
				`<script type="application/json" id="recording">` + told.String() + `</script>`,
		},
		part{"</body>", `<script type="module">` + script.String() + "</script>\n</body>"})
	if failed != nil {
		return failed
	}
	for _, p := range parts {
		if strings.Count(html, p.from) != 1 {
			return fmt.Errorf("the page has no %s", template.HTMLEscapeString(p.from))
		}
		html = strings.Replace(html, p.from, p.to, 1)
	}
	_, err = io.WriteString(w, html)
	return err
}

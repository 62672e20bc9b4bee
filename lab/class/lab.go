package class

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"example.com/stock/lab"
	"example.com/stock/lab/diagram"
)

// A LabRun is a run of the lab in the player, with a diagram for each case.
type LabRun struct {
	Lang  string
	cells []labCell
}

// A labCell is the data of a case for the player.
type labCell struct {
	Scenario string            `json:"scenario"`
	Title    map[string]string `json:"title"`   // of the scenario, by language
	Case     map[string]string `json:"case"`    // by language
	Outcome  map[string]string `json:"outcome"` // in words, by language
	Right    bool              `json:"right"`   // as predicted
	HTML     string            `json:"html,omitempty"`

	cell lab.Cell
}

// ReadLab reads the JSON report of stock lab run. Cases without recorded events are left out.
func ReadLab(r io.Reader) (*LabRun, error) {
	var report lab.Report
	if err := json.NewDecoder(io.LimitReader(r, maxRecording)).Decode(&report); err != nil {
		return nil, err
	}
	if report.Version != lab.ReportVersion {
		return nil, fmt.Errorf("this is version %d of a run of the lab, and only version %d can be read here",
			report.Version, lab.ReportVersion)
	}
	run := &LabRun{}
	for _, c := range report.Cells {
		if len(diagram.Of(c).Steps) == 0 {
			continue
		}
		said := c.Case().Said()
		if c.Repeat > 1 {
			again := " (" + strconv.Itoa(c.Repeat) + ")"
			said = lab.Text{EN: said.EN + again, ZH: said.ZH + again}
		}
		run.cells = append(run.cells, labCell{
			Scenario: c.Scenario, Title: both(c.Heading()), Case: both(said), Outcome: both(c.Observed.Word()),
			Right: c.AsPredicted, cell: c,
		})
	}
	if len(run.cells) == 0 {
		return nil, phrases.Error("no_case")
	}
	return run, nil
}

func both(t lab.Text) map[string]string { return map[string]string{"en": t.EN, "zh": t.ZH} }

// page returns the data of the page. If whole, it includes all diagrams.
func (l *LabRun) page(whole bool) ([]byte, error) {
	cells := make([]labCell, len(l.cells))
	for i, c := range l.cells {
		if whole {
			c.HTML = l.figure(c)
		}
		cells[i] = c
	}
	return json.Marshal(map[string]any{"lang": l.Lang, "cells": cells})
}

func (l *LabRun) figure(c labCell) string { return string(diagram.Of(c.cell).Figure(l.Lang)) }

// labPolicy allows inline styles, by which a diagram sets the width of its picture.
const labPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"

func (l *LabRun) site(addr string) (*site, error) {
	about, err := l.page(false)
	if err != nil {
		return nil, err
	}
	text := func(path, kind, content string) (string, http.HandlerFunc) {
		return "GET " + path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, content)
		}
	}
	return openSite(addr, func(context.Context) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", labPolicy)
			asset("lab.html")(w, r)
		})
		for _, name := range []string{"lab.css", "lab.js", "words.js", "words.json", "theme.css", "icon.svg"} {
			mux.HandleFunc("GET /"+name, asset(name))
		}
		mux.HandleFunc(text("/diagram.js", "text/javascript", diagram.Script))
		mux.HandleFunc(text("/diagram.css", "text/css", diagram.Style))
		mux.HandleFunc(text("/api/class", "application/json", string(about)))
		mux.HandleFunc("GET /figure/{n}", func(w http.ResponseWriter, r *http.Request) {
			n, err := strconv.Atoi(r.PathValue("n"))
			if err != nil || n < 0 || n >= len(l.cells) {
				refuse(w, http.StatusNotFound, "figure")
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, l.figure(l.cells[n]))
		})
		return mux
	})
}

// WriteHTML writes the run as one file that a browser opens without a server, with the diagrams of all cases.
func (l *LabRun) WriteHTML(w io.Writer) error {
	page, err := l.page(true)
	if err != nil {
		return err
	}
	return oneFile{
		page: "lab.html", styles: []string{"theme.css", "lab.css"},
		scripts: []string{"words.js", "diagram.js", "lab.js"},
		more:    map[string]string{"diagram.js": diagram.Script, "diagram.css": diagram.Style}, recording: page,
	}.write(w)
}

// isLab reports whether head is the beginning of a report of the lab.
func isLab(head []byte) bool {
	return bytes.HasPrefix(head, []byte("{")) && bytes.Contains(head, []byte(`"started_at"`)) &&
		bytes.Contains(head, []byte(`"took_ms"`)) && !bytes.Contains(head, []byte(`"format"`))
}

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// demoPage is where demo writes its page if not told otherwise. `make clean` removes the folder.
const demoPage = "out/demo.html"

// checkFiles finds what cannot be written now, and not when all has been done.
func (d *demo) checkFiles() error {
	if d.html == demoPage {
		if err := os.MkdirAll(filepath.Dir(demoPage), 0o755); err != nil {
			return fmt.Errorf("--html: %w (--html FILE writes it elsewhere, --html \"\" nowhere)", err)
		}
	}
	var errs []error
	for flag, path := range map[string]string{"json": d.json, "html": d.html} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	if d.histories != "" {
		if err := os.MkdirAll(d.histories, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("--histories: %w", err))
		}
	}
	return errors.Join(errs...)
}

// history opens the file for the history of a run, or nothing if none is wanted.
func (d *demo) history(a act, c cast) (io.WriteCloser, error) {
	if d.histories == "" {
		return nil, nil
	}
	number, _, _ := strings.Cut(a.title, ".")
	file, err := os.Create(filepath.Join(d.histories, fmt.Sprintf("%s-%s-%s.jsonl", number, c.strategy.Name, c.store)))
	if err != nil {
		return nil, fmt.Errorf("--histories: %w", err)
	}
	return file, nil
}

// sell is one run.
func (d *demo) sell(run func(loadtest.Plan) (*loadtest.Result, error), a act, c cast) (*loadtest.Result, error) {
	plan := loadtest.Plan{Strategy: c.strategy.Name, Store: c.store, Stock: demoStock, Requests: a.requests, Concurrency: a.concurrency}
	file, err := d.history(a, c)
	if err != nil {
		return nil, err
	}
	if file == nil {
		return run(plan)
	}
	plan.History = file
	result, err := run(plan)
	return result, errors.Join(err, file.Close())
}

// writeFiles writes what was seen to where it was asked for, and says where the page is.
func (d *demo) writeFiles() error {
	if d.json != "" {
		if err := writeResults(d.json, d.results); err != nil {
			return err
		}
	}
	if d.html == "" {
		return nil
	}
	page := report.Page{Title: "Who sells the last unit twice?", Groups: d.groups}
	if err := writeFile(d.html, func(w io.Writer) error { return report.WriteHTML(w, page) }); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	path, err := filepath.Abs(d.html)
	if err != nil {
		path = d.html
	}
	fmt.Fprintf(d.out, "Who held the lock when, the stock over time, every collision: file://%s\n", filepath.ToSlash(path))
	return nil
}

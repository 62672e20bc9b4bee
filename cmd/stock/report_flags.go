package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// reportFlags are the files that a command may write about runs, besides what it prints.
type reportFlags struct {
	html, csv, jtl, svg, png, porcupine string
}

func (f *reportFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.html, "html", "", "write a page about all of it to this file: one file, which needs no network")
	flags.StringVar(&f.csv, "csv", "", "write a line per request to this file as CSV")
	flags.StringVar(&f.jtl, "jtl", "", "write a line per request to this file as JMeter's listeners read it")
	flags.StringVar(&f.svg, "svg", "", "write pictures for slides into this folder as SVG")
	flags.StringVar(&f.png, "png", "", "write pictures for slides into this folder as PNG")
	flags.StringVar(&f.porcupine, "porcupine-html", "", fmt.Sprintf("write porcupine's picture of a single run to this file (up to %d requests)", loadtest.MaxLinear))
}

// check finds what cannot be written now, and not when all has been done.
func (f *reportFlags) check() error {
	for flag, path := range map[string]string{"html": f.html, "csv": f.csv, "jtl": f.jtl, "porcupine-html": f.porcupine, "svg": f.svg, "png": f.png} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		folder := flag == "svg" || flag == "png"
		switch {
		case err == nil && info.IsDir() != folder && folder:
			return &loadtest.PlanError{Field: flag, Reason: path + " is a file: give a folder"}
		case err == nil && info.IsDir() != folder:
			return &loadtest.PlanError{Field: flag, Reason: path + " is a folder: give a file"}
		case err != nil:
			if _, err := os.Stat(filepath.Dir(filepath.Clean(path))); err != nil {
				return &loadtest.PlanError{Field: flag, Reason: err.Error()}
			}
		}
	}
	return nil
}

// write writes the files that were asked for, as many as it can, and names each on told.
func (f *reportFlags) write(page report.Page, told io.Writer) error {
	var runs []*loadtest.Result
	for _, g := range page.Groups {
		runs = append(runs, g.Runs...)
	}
	var failed []error
	file := func(flag, path string, write func(io.Writer) error) {
		if path == "" {
			return
		}
		if err := writeFile(path, write); err != nil {
			failed = append(failed, fmt.Errorf("--%s: %w", flag, err))
			return
		}
		fmt.Fprintf(told, "wrote %s\n", path)
	}
	file("html", f.html, func(w io.Writer) error { return report.WriteHTML(w, page) })
	file("csv", f.csv, func(w io.Writer) error { return report.WriteCSV(w, runs) })
	file("jtl", f.jtl, func(w io.Writer) error { return report.WriteJTL(w, runs) })
	for format, dir := range map[string]string{report.SVG: f.svg, report.PNG: f.png} {
		if dir == "" {
			continue
		}
		names, err := report.WritePictures(dir, format, runs)
		if err != nil {
			failed = append(failed, fmt.Errorf("--%s: %w", format, err))
		}
		fmt.Fprintf(told, "wrote %d pictures into %s\n", len(names), dir)
	}
	if f.porcupine != "" && len(runs) != 1 {
		failed = append(failed, &loadtest.PlanError{Field: "porcupine-html", Reason: fmt.Sprintf("is about a single run, not about %d", len(runs))})
	} else if len(runs) == 1 {
		file("porcupine-html", f.porcupine, func(w io.Writer) error { return loadtest.WriteLinear(w, runs[0]) })
	}
	return errors.Join(failed...)
}

// writeFile writes path anew. It is left as it was, or not made, if write fails at once with nothing written.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Close())
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

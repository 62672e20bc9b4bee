package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"example.com/stock/app"
	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
	"example.com/stock/lock/locktest/server"
)

// width returns the number of columns of w if it is a terminal, and 0 otherwise.
func width(w io.Writer) int {
	file, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return cmp.Or(columns, 120) // some terminals do not know their size
}

// style returns the style for w: in colour only on a terminal, and without --no-color or NO_COLOR.
func (v voice) style(w io.Writer, noColor bool) report.Style {
	columns := width(w)
	return report.Style{
		Width: columns,
		Color: columns > 0 && !noColor && os.Getenv("NO_COLOR") == "",
		Lang:  string(v),
	}
}

// commit returns the commit of this program, for pages; empty: it is not known.
func commit() string {
	if c := app.Commit(); c != "unknown" {
		return c
	}
	return ""
}

// noColorFlag adds --no-color.
func noColorFlag(cmd *cobra.Command, noColor *bool) {
	cmd.Flags().BoolVar(noColor, "no-color", false, "")
}

// checkOutput returns an error if a file that a command writes at its end cannot be written: its folder is missing, or
// it is a folder itself. Commands that run for a long time call it first.
func checkOutput(flags *pflag.FlagSet) error {
	var bad []error
	for _, name := range []string{"json", "html", "export"} {
		flag := flags.Lookup(name)
		if flag == nil || flag.Value.String() == "" {
			continue
		}
		path := flag.Value.String()
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			bad = append(bad, wrong(name, err))
		} else if info, err := os.Stat(path); err == nil && info.IsDir() {
			bad = append(bad, wrong(name, failure("wrong.no-file", "path", path)))
		}
	}
	return errors.Join(bad...)
}

// writeFile replaces the file at path. If write fails, the file keeps its content.
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

// writeJSON writes the file of --json, if there is one. Unlike writeFile, it also writes to irregular files, such as a
// pipe.
func writeJSON(path string, document any) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(loadtest.EncodeJSON(file, document), file.Close())
	}
	if err != nil {
		return wrong("json", err)
	}
	return nil
}

// writeDocument writes a document to where --json says. done reports whether that is stdout, which then gets nothing
// else.
func writeDocument(path string, document any, stdout io.Writer) (done bool, err error) {
	if path == "-" {
		return true, loadtest.EncodeJSON(stdout, document)
	}
	return false, writeJSON(path, document)
}

// outputs holds the flags that say where and how a command shows its results.
type outputs struct {
	voice
	json, html string
	noColor    bool
}

// addFiles adds --json and --html.
func (o *outputs) addFiles(flags *pflag.FlagSet) {
	flags.StringVar(&o.json, "json", "", "")
	flags.StringVar(&o.html, "html", "", "")
}

// show writes the results as text, or as JSON to where --json says.
func (o *outputs) show(results []*loadtest.Result, stdout io.Writer) error {
	done, err := writeDocument(o.json, loadtest.NewReport(results), stdout)
	if done || err != nil {
		return err
	}
	s := o.style(stdout, o.noColor)
	if len(results) == 1 {
		err = report.WriteReport(stdout, results[0], s)
	} else {
		err = report.WriteTable(stdout, results, s)
	}
	return errors.Join(err, report.WriteExpectations(stdout, results, s))
}

// showCheckout writes the result of a checkout likewise, and its page.
func (o *outputs) showCheckout(r *checkout.Result, stdout, stderr io.Writer) error {
	done, err := writeDocument(o.json, r, stdout)
	if !done {
		if o.json != "" && err == nil {
			fmt.Fprintln(stderr, o.say("wrote", "path", o.json))
		}
		err = errors.Join(err, report.WriteCheckout(stdout, r, o.style(stdout, o.noColor)))
	}
	return errors.Join(err, o.writePage(stderr, func(w io.Writer) error {
		return report.WriteCheckoutHTML(w, r, commit(), string(o.voice))
	}))
}

// writeReport writes the page of --html, if there is one, and names it on stderr.
func (o *outputs) writeReport(page report.Page, stderr io.Writer) error {
	return o.writePage(stderr, func(w io.Writer) error { return report.WriteHTML(w, page) })
}

func (o *outputs) writePage(stderr io.Writer, write func(io.Writer) error) error {
	if o.html == "" {
		return nil
	}
	if err := writeFile(o.html, write); err != nil {
		return wrong("html", err)
	}
	fmt.Fprintln(stderr, o.say("wrote", "path", o.html))
	return nil
}

// showServers returns a function that names on w the servers that are missing or have failed. With ready, it also names
// those that are ready, with the time that each took.
func (v voice) showServers(w io.Writer, ready bool) func(server.Event) {
	return func(e server.Event) {
		switch {
		case e.What == "missing", e.What == "failed", e.What == "ready" && ready:
		default:
			return
		}
		took := ""
		if ready && e.Took > 0 {
			took = fmt.Sprintf("  (%.1f s)", e.Took.Seconds())
		}
		what := v.say("server." + e.What)
		blank := strings.Repeat(" ", max(0, 8-words.Columns(what)))
		fmt.Fprintf(w, "  %-10s %s%s %s%s\n", e.Server, what, blank, e.Detail, took)
	}
}

// untilUnread makes a command that has started servers end in order when its output is no longer read, as in `stock
// demo | head`. Without it, SIGPIPE would end the program at any point, and its temporary folder would stay. The signal
// itself cannot cancel, since it also comes for every broken connection. untilUnread returns a function that undoes it.
func untilUnread(cmd *cobra.Command) (undo func()) {
	file, ok := cmd.OutOrStdout().(*screen)
	if !ok {
		return func() {}
	}
	caught := make(chan os.Signal, 1) // caught, because every server would inherit an ignored signal
	signal.Notify(caught, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(cmd.Context())
	cmd.SetContext(ctx)
	cmd.SetOut(&readOutput{file, cancel})
	return func() {
		cancel()
		signal.Stop(caught)
	}
}

// A readOutput is a standard output that calls unread when it is no longer read.
type readOutput struct {
	*screen
	unread func()
}

func (o *readOutput) Write(text []byte) (int, error) {
	n, err := o.screen.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		o.unread()
	}
	return n, err
}

// Command http measures the endpoints of the service side by side: behind nginx, with wrk and with the project's own
// load generator, beside a gin "ping" that logs one line, and beside the bare loop of UPDATE, INSERT, COMMIT without
// HTTP. After every measurement the books are balanced from the store. See ../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"example.com/stock/tools/bench/rig"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "serve" { // package stack starts instances like that
		if err := serve(os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	err := bench(ctx, os.Args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "bench-http: interrupted; all that was started is stopped:", err)
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "bench-http:", err)
		os.Exit(1)
	}
}

// serve is one of the instances that package stack starts: ping, or an instance of stock whose profile is taken.
func serve(log io.Writer) error {
	instance := os.Getenv("STOCK_INSTANCE")
	folder := os.Getenv(profilesIn)
	if folder != "" {
		if err := offerProfiles(folder, instance); err != nil {
			return err
		}
		if filepath.Base(folder) != ping {
			return serveProfiled(log)
		}
	}
	return servePing(os.Getenv("STOCK_ADDR"), instance, log)
}

// Settings are the flags.
type settings struct {
	rounds, seconds, instances int
	rows                       []string
	beside                     string
	besideRows                 []string
	from, json                 string
	write, profile             bool
}

func parse(args []string) (settings, error) {
	var s settings
	var only, beside string
	f := flag.NewFlagSet("bench-http", flag.ContinueOnError)
	f.IntVar(&s.rounds, "rounds", 5, "how often everything is measured; figures are medians")
	f.IntVar(&s.seconds, "seconds", 2, "how long each row is measured in each round, in whole seconds")
	f.IntVar(&s.instances, "instances", 3, "instances behind nginx")
	f.StringVar(&only, "rows", "",
		"measure only these, with commas between them: "+strings.Join(rowNames(), ", ")+" (the store without HTTP)")
	f.StringVar(&s.beside, "beside", "",
		"measure the program of this `folder or commit` in the same rounds, on servers of its own; figures that are "+
			"held against atomic/mysql are then held against that one's")
	f.StringVar(&beside, "beside-rows", "atomic/mysql", "the rows that are measured --beside")
	f.StringVar(&s.from, "from", "", "measure nothing: print what an earlier run wrote with --json to this `file`")
	f.StringVar(&s.json, "json", "", "write everything that was measured to this `file`")
	f.BoolVar(&s.profile, "profile", false,
		"when all is measured, profile the instances under the main rows, and tell their CPU time by part")
	f.BoolVar(&s.write, "write", false, "write docs/bench-http.json, and the pages made from it in both languages")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	split := func(list string) []string {
		return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if s.rows = split(only); len(s.rows) == 0 {
		s.rows = rowNames()
	}
	s.besideRows = split(beside)
	for _, name := range slices.Concat(s.rows, s.besideRows) {
		if !slices.Contains(rowNames(), name) {
			return s, fmt.Errorf("--rows: %q is none of %s", name, strings.Join(rowNames(), ", "))
		}
	}
	for _, name := range s.besideRows {
		if name == ping || name == noHTTP {
			return s, fmt.Errorf("--beside-rows: %s is no endpoint of the service", name)
		}
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("%q is no flag: there are no other arguments", f.Arg(0))
	case s.rounds < 1 || s.seconds < 1 || s.instances < 1 || s.instances > 5:
		return s, errors.New("want --rounds and --seconds of 1 or more, and --instances from 1 to 5")
	}
	return s, nil
}

func bench(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	root, err := rig.Root(ctx)
	if err != nil {
		return err
	}
	r, err := s.results(ctx, root)
	if err != nil {
		return err
	}
	fmt.Print(r.render(en))
	if s.json != "" {
		if err := r.save(s.json); err != nil {
			return fmt.Errorf("write --json: %w", err)
		}
	}
	if s.write {
		return r.write(filepath.Join(root, "docs"))
	}
	return nil
}

// The files of --write, in docs.
const kept = "bench-http.json"

// pages maps each page to its language.
func pages() map[string]language {
	return map[string]language{"bench-http.md": en, "bench-http.zh-CN.md": zh}
}

func (r *results) write(docs string) error {
	if err := r.save(filepath.Join(docs, kept)); err != nil {
		return err
	}
	for name, l := range pages() {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(r.page(l)), 0o644); err != nil {
			return err
		}
		rig.Progress("wrote docs/%s", name)
	}
	return nil
}

func (r *results) save(file string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

func load(file string) (r *results, err error) {
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// results returns those of a new run, or of an earlier one with --from.
func (s settings) results(ctx context.Context, root string) (r *results, err error) {
	if s.from != "" {
		if r, err = load(s.from); err != nil {
			return nil, fmt.Errorf("--from: %w", err)
		}
		return r, nil
	}
	c, err := open(ctx, s, root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if r, err = c.measure(ctx); err != nil || !s.profile {
		return r, err
	}
	r.Shares, err = c.profile(ctx)
	return r, err
}

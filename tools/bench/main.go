// Command bench compares the locks of this project with those of others, on the same work, in one run.
//
// The work is a GET and a SET of one Redis key, done while the lock is held. Contenders run in processes of their
// own. They start together and repeat the work for a fixed time. See README.md.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/tools/bench/rig"
)

// errLost makes the exit status 1: a lock had two holders at once. A slow lock is no error.
var errLost = errors.New("a lock lost updates")

func main() {
	if len(os.Args) == 3 && os.Args[1] == workerRole {
		if err := work(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	if err := compare(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Settings are the flags.
type settings struct {
	duration time.Duration
	rounds   int
	only     *regexp.Regexp // entrants
	tables   *regexp.Regexp
	delay    time.Duration // added to every round trip in the delayed tables
	from     string
	json     string
	markdown string
	profiles string
	beside   []string // LABEL=PROGRAM
}

func parse(args []string) (settings, error) {
	var s settings
	var only, tables string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.DurationVar(&s.duration, "duration", 3*time.Second, "how long each lock is measured in each round")
	f.IntVar(&s.rounds, "rounds", 5, "how often; figures are medians")
	f.StringVar(&only, "only", "",
		"measure only what matches this regular expression; figures that need more are left out")
	f.StringVar(&tables, "tables", "",
		"print only the tables whose whole name matches: "+strings.Join(tableNames(), ", "))
	f.DurationVar(&s.delay, "delay", time.Millisecond,
		"added to every round trip in the delayed tables, half of it each way")
	f.StringVar(&s.from, "from", "", "measure nothing: print what an earlier run wrote with --json to this `file`")
	f.StringVar(&s.json, "json", "", "write everything that was measured to this `file`")
	f.StringVar(&s.markdown, "markdown", "",
		"put the tables into this `file`, between <!-- bench --> and <!-- /bench -->")
	f.StringVar(&s.profiles, "profiles", "",
		"have the first process of each Go entrant write a CPU profile into this `folder`")
	const besideHelp = "measure our locks again from another build of bench, `LABEL=PROGRAM`: " +
		"before and after a change. May be repeated"
	f.Func("beside", besideHelp, func(build string) error {
		if _, program, ok := strings.Cut(build, "="); !ok || program == "" {
			return errors.New("want LABEL=PROGRAM")
		}
		s.beside = append(s.beside, build)
		return nil
	})
	if err := f.Parse(args); err != nil {
		return s, err
	}
	var err error
	if s.only, err = regexp.Compile(only); err != nil {
		return s, fmt.Errorf("--only: %w", err)
	}
	if s.tables, err = regexp.Compile("^(?:" + cmp.Or(tables, ".*") + ")$"); err != nil {
		return s, fmt.Errorf("--tables: %w", err)
	}
	if s.rounds < 1 || s.duration < 100*time.Millisecond || f.NArg() > 0 {
		return s, errors.New("want --rounds of 1 or more, a --duration of 100ms or more, and no other arguments")
	}
	return s, nil
}

// compare does everything: starts the servers, measures, prints.
func compare(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	r, err := s.results(ctx)
	if err != nil {
		return err
	}
	text := r.render()
	fmt.Print(text)
	if s.json != "" {
		data, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(s.json, append(data, '\n'), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write --json: %w", err)
		}
	}
	if s.markdown != "" {
		if err := rig.Fill(s.markdown, text); err != nil {
			return fmt.Errorf("--markdown: %w", err)
		}
	}
	if r.lostUpdates() {
		return errLost
	}
	return nil
}

// results returns those of a new run, or of an earlier one with --from.
func (s settings) results(ctx context.Context) (r *results, err error) {
	if s.from == "" {
		c, err := openContest(ctx, s)
		if err != nil {
			return nil, err
		}
		r, err := c.measure(ctx)
		return r, errors.Join(err, c.close())
	}
	data, err := os.ReadFile(s.from)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	r.Figures = r.figures()
	return r, nil
}

// progress prints to stderr, for people who wait. The tables go to stdout.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func tell(e server.Event) {
	if e.What != "starting" {
		progress("%s %s %s", e.Server, e.What, e.Detail)
	}
}

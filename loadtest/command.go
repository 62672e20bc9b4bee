package loadtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/stock/internal/words"
)

// A Command is a shell command that a run executes at a moment of it, such as one that kills an instance.
type Command struct {
	AtMS  float64 `json:"at_ms"`   // after the first request
	Shell string  `json:"command"` // for sh -c
}

// ParseCommand parses a text such as "2s=docker kill app-2". The moment is from 0s to 24h.
func ParseCommand(text string) (Command, error) {
	at, shell, is := strings.Cut(text, "=")
	after, err := time.ParseDuration(strings.TrimSpace(at))
	shell = strings.TrimSpace(shell)
	switch {
	case !is || err != nil:
		return Command{}, phrases.Error("command.form", "given", text)
	case after < 0 || after > 24*time.Hour:
		return Command{}, phrases.Error("command.moment", "given", after)
	case shell == "":
		return Command{}, phrases.Error("command.empty", "given", text)
	}
	return Command{float64(after) / float64(time.Millisecond), shell}, nil
}

// CheckCommands returns a PlanError if a run of that duration is over before one of the commands. 0: it has no end.
func CheckCommands(list []Command, duration time.Duration) error {
	for i := range list {
		if after := list[i].After(); duration > 0 && after >= duration {
			return wrong("at", "at-late", "given", after, "duration", duration)
		}
	}
	return nil
}

// After returns the moment, counted from the first request.
func (c *Command) After() time.Duration { return time.Duration(c.AtMS * float64(time.Millisecond)) }

// String returns the form that ParseCommand reads.
func (c *Command) String() string { return c.After().String() + "=" + c.Shell }

// A Ran says what became of a Command, and of the requests after it.
type Ran struct {
	Command
	StartedAt time.Time `json:"started_at,omitzero"` // zero: the run ended before its moment
	TookMS    float64   `json:"took_ms,omitempty"`
	// Failed is why it did not end with exit status 0, such as "exit status 1". A command that still runs when the run
	// has ended is killed, with its process group, after Grace.
	Failed string `json:"failed,omitempty"`
	// Then has the replies to the requests that were sent from its start until the next command's, by outcome.
	Then map[string]int `json:"then,omitempty"`
	// NextSaleMS is the time from its start to the first sale that was asked for after it; 0: there was none.
	NextSaleMS float64 `json:"next_sale_ms,omitempty"`
}

// RunCommands executes each command at its moment after start, until ctx ends. It returns when all have ended. Each
// command and each line of its output is written to out, if that is not nil, with the time since start.
func RunCommands(ctx context.Context, start time.Time, list []Command, out io.Writer) []Ran {
	if out == nil {
		out = io.Discard
	}
	ran := make([]Ran, len(list))
	var all sync.WaitGroup
	lines := &lineLog{log.New(out, "", 0), start}
	for i, c := range list {
		ran[i].Command = c
		all.Go(func() {
			if Sleep(ctx, c.After()-time.Since(start)) != nil || ctx.Err() != nil {
				return
			}
			ran[i].run(ctx, lines)
		})
	}
	all.Wait()
	return ran
}

func (r *Ran) run(ctx context.Context, lines *lineLog) {
	lines.line("$ " + r.Shell)
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer context.AfterFunc(ctx, func() { _ = Sleep(life, Grace); kill() })()
	cmd := shell(life, r.Shell, Grace)
	output := &outputLines{log: lines}
	cmd.Stdout, cmd.Stderr = output, output
	began := time.Now()
	r.StartedAt = began.Round(0).UTC()
	err := cmd.Run()
	output.end()
	r.TookMS = float64(time.Since(began)) / float64(time.Millisecond)
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		r.Failed = err.Error()
	}
	lines.line("$ " + r.Shell + ": " + cmd.ProcessState.String())
}

// shell returns a shell command that is killed with its process group when ctx ends. Its output is read for so much
// longer at most, because a process that left the group may hold it open.
func shell(ctx context.Context, command string, wait time.Duration) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = wait
	return cmd
}

// A lineLog writes lines with the time since start.
type lineLog struct {
	*log.Logger
	start time.Time
}

func (l *lineLog) line(text string) { l.Printf("[%.1fs] %s", time.Since(l.start).Seconds(), text) }

// outputLines passes the output of one command on, line by line.
type outputLines struct {
	log  *lineLog
	rest []byte
}

func (o *outputLines) Write(text []byte) (int, error) {
	o.rest = append(o.rest, text...)
	for {
		line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		o.log.line("  " + string(line))
		o.rest = rest
	}
}

func (o *outputLines) end() {
	if len(o.rest) > 0 {
		o.log.line("  " + string(o.rest))
	}
}

// A Sent is a request, as Aftermath sees it.
type Sent struct {
	At, Done time.Time
	Outcome  string
	Sale     bool // it was accepted
}

// Aftermath fills in what became of the requests after each command, whatever their order. sent returns what a record
// is of.
func Aftermath[R any](list []Ran, records []R, sent func(*R) Sent) {
	for i := range list {
		list[i].Then, list[i].NextSaleMS = nil, 0
	}
	for k := range records {
		s := sent(&records[k])
		var latest *Ran
		for i := range list {
			r := &list[i]
			if r.StartedAt.IsZero() || s.At.Before(r.StartedAt) {
				continue
			}
			if latest == nil || r.StartedAt.After(latest.StartedAt) {
				latest = r
			}
			if ms := float64(s.Done.Sub(r.StartedAt)) / float64(time.Millisecond); s.Sale &&
				(r.NextSaleMS == 0 || ms < r.NextSaleMS) {
				r.NextSaleMS = ms
			}
		}
		if latest != nil {
			if latest.Then == nil {
				latest.Then = make(map[string]int)
			}
			latest.Then[s.Outcome]++
		}
	}
}

// Said describes what became of the command and of the requests after it. outcomes are the outcomes to name, in order,
// with their names.
func (r *Ran) Said(outcomes []string, name func(string) words.Text) words.Text {
	if r.StartedAt.IsZero() {
		return say("command.not-run", "at", r.After(), "command", r.Shell)
	}
	how := say("command.done", "took", Millis(r.TookMS))
	if r.Failed != "" {
		how = say("command.failed", "took", Millis(r.TookMS), "why", r.Failed)
	}
	var parts []words.Text
	for _, o := range outcomes {
		if n := r.Then[o]; n > 0 {
			parts = append(parts, say("command.replies", "n", n, "outcome", name(o)))
		}
	}
	then := say("command.nothing")
	if len(parts) > 0 {
		then = words.Join(parts, say("comma"))
	}
	next := say("command.no-sale")
	if r.NextSaleMS > 0 {
		next = say("command.next-sale", "after", Millis(r.NextSaleMS))
	}
	return say("command.ran", "at", r.After(), "command", r.Shell, "how", how, "then", then, "next", next)
}

// DataLost is the problem type of a service that has found that its store lost data.
const DataLost = "data_lost"

// WhenItHappens answers whether a service oversells while such commands run. lost means that the service has reported
// DataLost.
func WhenItHappens(f Finding, oversold int64, lost bool) words.Text {
	switch {
	case lost:
		return say("command.data-lost")
	case oversold > 0:
		return say("command.oversold", "n", oversold)
	case f == Holds:
		return say("command.held")
	case f == Broken:
		return say("command.broken")
	}
	return say("command.undecided")
}

// aftermath fills in what became of the requests after each command.
func (r *Result) aftermath() {
	Aftermath(r.Ran, r.Records, func(rec *Record) Sent {
		return Sent{rec.SentAt, rec.DoneAt, string(rec.Outcome), rec.Outcome == Accepted}
	})
}

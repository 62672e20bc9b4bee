// Command http measures the endpoints of the service side by side, over HTTP:
//
//	make bench-http
//	make bench-http ARGS='--rounds 3 --seconds 2 --rows merged/mysql,atomic/mysql'
//	make bench-http ARGS='--beside /path/of/another/stock'
//
// It starts "stock demo --keep" (Redis, MariaDB, ZooKeeper, three instances, nginx), and loads each row with wrk, a
// closed loop, in rounds. "ping" is GET /livez through the same nginx and the same gin: the limit of every row. Ratios
// are taken within a round. After each measurement the books must balance, except for "none", which loses updates. With
// --beside the rows are also measured on another build of the service, on servers of its own, in turns.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/stock/tools/bench/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench-http:", err)
		os.Exit(1)
	}
}

const (
	token = "demo" // that of stock demo
	// stock is more than can be sold in a measurement, so that a row ends with its time and not with its stock.
	stock = 100_000_000
)

// A row is an endpoint on a store. A row without a strategy is ping.
type row struct {
	name, strategy, store string
	refuses               bool // nothing is in stock: what a refusal costs
	loses                 bool // updates, so its books do not balance
}

func rows() []row {
	list := []row{{name: "ping"}}
	for _, store := range []string{"redis", "mysql"} {
		list = append(list, row{"none/" + store, "none", store, false, true})
		for _, strategy := range []string{"redis-watchdog", "zk-sequential", "optimistic", "atomic", "merged"} {
			list = append(list, row{strategy + "/" + store, strategy, store, false, false})
		}
		list = append(list, row{"atomic/" + store + ", refused", "atomic", store, true, false})
	}
	return list
}

type settings struct {
	stock, beside   string
	rounds, seconds int
	connections     []int
	rows            []row
	into            string
}

func parse(args []string) (s settings, err error) {
	f := flag.NewFlagSet("bench-http", flag.ContinueOnError)
	f.StringVar(&s.stock, "stock", "../bin/stock", "the program to measure")
	f.StringVar(&s.beside, "beside", "", "another build of it, measured in the same rounds")
	f.IntVar(&s.rounds, "rounds", 5, "rounds")
	f.IntVar(&s.seconds, "seconds", 2, "seconds of each row in a round")
	f.StringVar(&s.into, "markdown", "", "files with commas: put the table between <!-- bench --> and <!-- /bench -->")
	connections := f.String("connections", "30,128", "connections of wrk")
	names := f.String("rows", "", "rows with commas (default: all); ping is always there")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.rounds < 1 || s.seconds < 1 {
		return s, errors.New("--rounds and --seconds must be at least 1")
	}
	for text := range strings.SplitSeq(*connections, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return s, fmt.Errorf("--connections: %q is no number of at least 1", text)
		}
		s.connections = append(s.connections, n)
	}
	s.rows = rows()
	if *names == "" {
		return s, nil
	}
	wanted := strings.Split(*names, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(s.rows, func(r row) bool { return r.name == name }) {
			return s, fmt.Errorf("--rows: no row is called %q", name)
		}
	}
	s.rows = slices.DeleteFunc(s.rows, func(r row) bool { return r.strategy != "" && !slices.Contains(wanted, r.name) })
	return s, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("wrk not found on PATH: apt-get install wrk (macOS: brew install wrk)")
	}
	sides := []*side{{program: s.stock}}
	if s.beside != "" {
		sides = append(sides, &side{program: s.beside, label: " @beside"})
	}
	for _, side := range sides {
		defer side.stop()
		if err := side.start(ctx); err != nil {
			return fmt.Errorf("%s demo --keep: %w", side.program, err)
		}
	}
	r := results{settings: s, began: time.Now()}
	for round := range s.rounds {
		for _, connections := range s.connections {
			for _, one := range s.rows {
				for _, side := range sides {
					fmt.Fprintf(os.Stderr, "round %d of %d: %s%s, %d connections\n", round+1, s.rounds, one.name,
						side.label, connections)
					m, err := side.measure(ctx, one, connections, s.seconds)
					if err != nil {
						return fmt.Errorf("%s%s: %w", one.name, side.label, err)
					}
					m.round, m.connections, m.row = round, connections, one.name+side.label
					r.all = append(r.all, m)
				}
			}
		}
	}
	table := r.table()
	fmt.Fprintln(out, table)
	if s.into == "" {
		return nil
	}
	for file := range strings.SplitSeq(s.into, ",") {
		if err := rig.Fill(file, table); err != nil {
			return fmt.Errorf("--markdown: %w", err)
		}
	}
	return nil
}

// A side is a demonstration that keeps running.
type side struct {
	program, label string
	cmd            *exec.Cmd
	url            string
	ended          chan struct{}
	said           bytes.Buffer // read after ended
}

// start starts the servers, and returns when everything has been shown once and keeps running.
func (s *side) start(ctx context.Context) error {
	s.cmd = exec.Command(s.program, "demo", "--keep", "--store", "both", "--strategies", "atomic", "--requests", "101",
		"--checkout=false", "--html", "", "--no-color", "--lang", "en")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches this process, which ends it
	s.cmd.Stderr = &s.said
	output, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	url := make(chan string, 1)
	go func() {
		defer close(s.ended)
		s.await(output, url)
		_ = s.cmd.Wait()
	}()
	select {
	case s.url = <-url:
		return nil
	case <-s.ended:
		return fmt.Errorf("it ended:\n%s", s.said.String())
	case <-ctx.Done():
		return ctx.Err()
	}
}

var address = regexp.MustCompile(`curl -X POST (http://\S+)/deduct_stock_zk`)

// await reads to the end of the output, and passes on the address of nginx when it appears.
func (s *side) await(output io.Reader, url chan<- string) {
	var text []byte
	buffer := make([]byte, 4096)
	found := false
	for {
		n, err := output.Read(buffer)
		if text = append(text, buffer[:n]...); !found {
			if m := address.FindSubmatch(text); m != nil {
				url <- string(m[1])
				found = true
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *side) stop() {
	if s.ended == nil {
		return
	}
	_ = s.cmd.Process.Signal(os.Interrupt)
	<-s.ended
}

// A measurement is what one row did in a round.
type measurement struct {
	row                string
	round, connections int
	rate               float64 // sold, or answered, a second
	p99                float64 // ms
	cpu                float64 // µs of all instances for each; 0: cannot be read here
	broken             int64   // requests without a reply
}

func (s *side) measure(ctx context.Context, r row, connections, seconds int) (m measurement, err error) {
	target, script := s.url+"/livez", ""
	sku := ""
	if r.strategy != "" {
		sku = fmt.Sprintf("bench-%d", time.Now().UnixNano())
		units := stock
		if r.refuses {
			units = 0
		}
		if err := s.set(ctx, r.store, sku, units); err != nil {
			return m, err
		}
		target = fmt.Sprintf("%s/v1/stock/%s/deduct?strategy=%s&store=%s", s.url, sku, r.strategy, r.store)
		script = "wrk.method = \"POST\"\n"
	}
	before := instancesTime(s.cmd.Process.Pid)
	l, err := wrk(ctx, target, script, connections, seconds)
	if err != nil {
		return m, err
	}
	spent := instancesTime(s.cmd.Process.Pid) - before
	done := l.requests - l.refused
	switch {
	case r.refuses:
		done = l.refused
	case r.strategy != "":
		if done, err = s.books(ctx, r, sku, l.requests-l.refused); err != nil {
			return m, err
		}
	}
	if done <= 0 {
		return m, errors.New("not one request was answered")
	}
	return measurement{
		rate: float64(done) / l.seconds, p99: l.p99, cpu: spent / float64(done), broken: l.broken,
	}, nil
}

func (s *side) set(ctx context.Context, store, sku string, units int) error {
	body := strings.NewReader(fmt.Sprintf(`{"quantity":%d}`, units))
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.url+"/v1/stock/"+sku+"?store="+store, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	return reply(req, nil)
}

// books returns what was sold, once nothing is under way any more. wrk leaves requests behind when its time is over, so
// more may be sold than it has seen, and never less.
func (s *side) books(ctx context.Context, r row, sku string, seen int64) (sold int64, err error) {
	var is, was struct{ Quantity, Initial, Sold int64 }
	for try := 0; ; try++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/stock/"+sku+"?store="+r.store, nil)
		if err != nil {
			return 0, err
		}
		if err := reply(req, &is); err != nil {
			return 0, err
		}
		if try > 0 && is == was {
			break
		}
		was = is
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if !r.loses && is.Initial != is.Quantity+is.Sold {
		return 0, fmt.Errorf("the books do not balance: %d at first, %d left, %d sold", is.Initial, is.Quantity,
			is.Sold)
	}
	if is.Sold < seen {
		return 0, fmt.Errorf("%d sales were answered, but only %d are in the books", seen, is.Sold)
	}
	return is.Sold, nil
}

func reply(req *http.Request, into any) error {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL, res.Status, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// A load is what wrk saw. Its latencies leave out what waits outside for a connection.
type load struct {
	requests, refused, broken int64
	seconds, p99              float64 // s, ms
}

func wrk(ctx context.Context, url, script string, connections, seconds int) (load, error) {
	dir, err := os.MkdirTemp("", "bench-http-")
	if err != nil {
		return load{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "wrk.lua")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return load{}, err
	}
	cmd := exec.CommandContext(ctx, "wrk", "-t", strconv.Itoa(min(2, connections)), "-c", strconv.Itoa(connections),
		"-d", fmt.Sprintf("%ds", seconds), "--timeout", "10s", "--latency", "-s", file, url)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w: %s", err, text)
	}
	return parseWrk(string(text))
}

var (
	total   = regexp.MustCompile(`(\d+) requests in ([0-9.]+(?:us|ms|s|m))`)
	slowest = regexp.MustCompile(`(?m)^ +99% +([0-9.]+(?:us|ms|s|m))`)
	non2xx  = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	sockets = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

// parseWrk reads what wrk --latency prints.
func parseWrk(text string) (l load, err error) {
	all, last := total.FindStringSubmatch(text), slowest.FindStringSubmatch(text)
	if all == nil || last == nil {
		return l, fmt.Errorf("wrk printed something else than its figures:\n%s", text)
	}
	l.requests, _ = strconv.ParseInt(all[1], 10, 64)
	took, err := time.ParseDuration(all[2]) // the same units as Go's
	if err != nil {
		return l, err
	}
	p99, err := time.ParseDuration(last[1])
	if err != nil {
		return l, err
	}
	l.seconds, l.p99 = took.Seconds(), float64(p99.Microseconds())/1000
	if m := non2xx.FindStringSubmatch(text); m != nil {
		l.refused, _ = strconv.ParseInt(m[1], 10, 64)
	}
	if m := sockets.FindStringSubmatch(text); m != nil {
		for _, number := range m[1:] {
			n, _ := strconv.ParseInt(number, 10, 64)
			l.broken += n
		}
	}
	return l, nil
}

// instancesTime returns the CPU time in µs that the instances below a demonstration have taken: its children that
// run "serve". It returns 0 on a system without /proc.
func instancesTime(demo int) (us float64) {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", demo))
	for _, file := range children {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // that thread has ended
		}
		for child := range strings.FieldsSeq(string(list)) {
			command, err := os.ReadFile("/proc/" + child + "/cmdline")
			if err != nil || !bytes.Contains(command, []byte("\x00serve")) {
				continue
			}
			pid, _ := strconv.Atoi(child) // as the kernel wrote it
			spent, _ := rig.ProcessTime(pid)
			us += spent
		}
	}
	return us
}

// results are all measurements of a run.
type results struct {
	settings
	began time.Time
	all   []measurement
}

// table returns the result as Markdown.
func (r results) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %d CPUs, %s, load average at the end %.2f.\n",
		r.began.UTC().Format("2006-01-02 15:04 MST"), runtime.NumCPU(), runtime.Version(), rig.LoadAverage())
	fmt.Fprintf(&b, "%d rounds of %d s for each row, in turns.\n", r.rounds, r.seconds)
	b.WriteString("Medians over the rounds; ratios within a round: median (smallest to largest).\n\n")
	b.WriteString("| row, connections | a second | / ping | p99, ms | CPU of the instances, µs each | no reply |\n" +
		"|---|---:|---:|---:|---:|---:|\n")
	for _, connections := range r.connections {
		for _, name := range r.names() {
			line := r.of(name, connections)
			var ratios, rates, slow, cpu []float64
			var broken int64
			for i, m := range line {
				ratios = append(ratios, m.rate/r.of("ping"+label(name), connections)[i].rate)
				rates, slow, cpu = append(rates, m.rate), append(slow, m.p99), append(cpu, m.cpu)
				broken += m.broken
			}
			fmt.Fprintf(&b, "| %s, %d | %.0f | %.2f (%.2f to %.2f) | %.1f | %.0f | %d |\n", name, connections,
				rig.Median(rates), rig.Median(ratios), slices.Min(ratios), slices.Max(ratios), rig.Median(slow),
				rig.Median(cpu), broken)
		}
	}
	return b.String()
}

// label returns the end of a row's name that says of which side it is.
func label(name string) string {
	if _, side, ok := strings.Cut(name, " @"); ok {
		return " @" + side
	}
	return ""
}

func (r results) names() (list []string) {
	for _, m := range r.all {
		if !slices.Contains(list, m.row) {
			list = append(list, m.row)
		}
	}
	return list
}

// of returns the measurements of a row, by round.
func (r results) of(name string, connections int) (list []measurement) {
	for _, m := range r.all {
		if m.row == name && m.connections == connections {
			list = append(list, m)
		}
	}
	return list
}

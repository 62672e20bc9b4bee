package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/panels"
	"example.com/stock/internal/stack"
)

// A monitor is a Prometheus with an Alertmanager whose notices reach receiver.
type monitor struct {
	*receiver
	interval  time.Duration // between two scrapes, and between two evaluations
	prom      string        // its address
	processes []*stack.Process
}

// startBound ends the wait for a server that does not start.
const startBound = time.Minute

// scraped is how often the example of a configuration scrapes. Prometheus would not keep up with intervals below
// leastInterval on a busy computer.
const (
	scraped       = 15 * time.Second
	leastInterval = 500 * time.Millisecond
)

// watch starts a monitor of the targets (host:port), with rules whose times are divided by factor. It has to be closed
// before s is stopped.
func watch(
	ctx context.Context, s *stack.Stack, rules string, factor int, targets []string,
) (m *monitor, err error) {
	dir := s.Dir
	m = &monitor{interval: max(scraped/time.Duration(factor), leastInterval)}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.receiver, err = listen(); err != nil {
		return m, err
	}
	manager, err := s.Reserve()
	if err != nil {
		return m, err
	}
	if m.prom, err = s.Reserve(); err != nil {
		return m, err
	}
	files := map[string]string{
		"stock.rules.yml": compress(rules, factor),
		"prometheus.yml": fmt.Sprintf(`
global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}
rule_files: [stock.rules.yml]
scrape_configs:
- {job_name: stock, static_configs: [{targets: [%[2]s]}]}
- {job_name: prometheus, static_configs: [{targets: ['%[3]s']}]}
alerting: {alertmanagers: [{static_configs: [{targets: ['%[4]s']}]}]}
`, span(m.interval), strings.Join(targets, ", "), m.prom, manager),
		// Each alert is a group of its own, and is sent at once.
		"alertmanager.yml": fmt.Sprintf(`
route: {receiver: here, group_by: ['...'], group_wait: 0s, group_interval: 200ms}
receivers: [{name: here, webhook_configs: [{url: '%s'}]}]
`, m.receiver.url),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return m, err
		}
	}
	err = m.start(ctx, dir, manager, "prometheus-alertmanager", "--config.file="+dir+"/alertmanager.yml",
		"--storage.path="+dir+"/alertmanager", "--cluster.listen-address=")
	if err == nil {
		err = m.start(ctx, dir, m.prom, "prometheus", "--config.file="+dir+"/prometheus.yml",
			"--storage.tsdb.path="+dir+"/prometheus")
	}
	return m, err
}

// start starts a server at an address and waits until it is ready.
func (m *monitor) start(ctx context.Context, dir, addr, name string, flags ...string) error {
	program, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("%w: apt-get install prometheus prometheus-alertmanager", err)
	}
	log := filepath.Join(dir, name+".log")
	// The shell gives the server a file for its output. Nobody reads the pipes of the process.
	shell := []string{"/bin/sh", "-c", `exec "$0" "$@" >` + log + ` 2>&1`, program}
	flags = append(flags, "--web.listen-address="+addr)
	p, err := stack.StartProcess(append(shell, flags...), os.Environ())
	if err != nil {
		return err
	}
	m.processes = append(m.processes, p)
	for began := time.Now(); ; {
		if _, err := get(ctx, "http://"+addr+"/-/ready"); err == nil {
			return nil
		}
		select {
		case <-p.Exited():
			text, _ := os.ReadFile(log)
			return fmt.Errorf("%s: %s\n%s", name, p.Outcome(), text)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(began) > startBound {
			return fmt.Errorf("%s is not ready after %v", name, startBound)
		}
	}
}

func (m *monitor) close() {
	for _, p := range m.processes {
		_ = p.Close()
	}
	if m.receiver != nil {
		m.receiver.close()
	}
}

// iterations returns how often Prometheus has evaluated the rules, and how often it was too late to do so.
func (m *monitor) iterations(ctx context.Context) (done, missed int, err error) {
	text, err := get(ctx, "http://"+m.prom+"/metrics")
	if err != nil {
		return 0, 0, err
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		switch {
		case err != nil:
		case name == "prometheus_rule_group_iterations_total":
			done += int(n)
		case name == "prometheus_rule_group_iterations_missed_total":
			missed += int(n)
		}
	}
	return done, missed, lines.Err()
}

// query evaluates an expression now.
func (m *monitor) query(ctx context.Context, expr string) ([]panels.Sample, error) {
	return panels.Prometheus{URL: "http://" + m.prom}.Query(ctx, expr, time.Time{})
}

// late reports whether this computer was too slow for the monitor: Prometheus has missed an evaluation, or took longer
// than half of the interval to scrape itself. Then an alert may have fired that would not on an idle computer, and the
// reverse.
func (m *monitor) late(ctx context.Context) bool {
	_, missed, err := m.iterations(ctx)
	if err != nil || missed > 0 {
		return true
	}
	slow, err := m.query(ctx, `max_over_time(scrape_duration_seconds{job="prometheus"}[1h]) or on() vector(9)`)
	if err != nil {
		return true
	}
	for _, s := range slow {
		if s.Value > m.interval.Seconds()/2 {
			return true
		}
	}
	return false
}

func get(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = errors.New(address + ": " + reply.Status)
	}
	return string(text), err
}

// spans are the lengths of time in the rules: windows, offsets, how long a condition must last, and the age in seconds
// with which a metric is compared. The days before the end of a certificate are not among them, because a certificate
// that ends in two days can be had at once. The names of recorded series contain windows, too, and keep them.
var spans = regexp.MustCompile(`(\[|offset |for: )(\d+)([smhd])|(_seconds\) > )(\d+)`)

var lengths = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// compress divides every length of time in a file of rules by factor, and changes nothing else. It leaves whole
// milliseconds, because Prometheus accepts no fractions.
func compress(rules string, factor int) string {
	return spans.ReplaceAllStringFunc(rules, func(text string) string {
		m := spans.FindStringSubmatch(text)
		if m[4] != "" {
			n, _ := strconv.ParseFloat(m[5], 64) // digits
			return m[4] + strconv.FormatFloat(n/float64(factor), 'g', -1, 64)
		}
		n, _ := strconv.Atoi(m[2]) // digits
		return m[1] + span(time.Duration(n)*lengths[m[3]]/time.Duration(factor))
	})
}

// span writes a duration as Prometheus reads it.
func span(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

package tally

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// most is the largest accepted count, so that sums of counts fit an int64.
const most = 1_000_000_000_000

// count reads a number of requests.
func count(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, phrases.Error("number", "text", text)
	}
	return n, nil
}

// A form is the text format of a tool's summary.
type form struct {
	format Format
	sign   *regexp.Regexp // a line that occurs once in each summary
	read   func(text string) (Summary, error)
}

func forms() []form {
	return []form{
		{Hey, regexp.MustCompile(`(?m)^Status code distribution:$`), readHey},
		{Wrk, regexp.MustCompile(`(?m)^ +\d+ requests in [\d.]+\w+, .+ read$`), readWrk},
		{K6, regexp.MustCompile(`(?m)^\s*(?:[✓✗] )?http_reqs\.*: +\d+ `), readK6},
		// The rate has the decimal point of JMeter's locale, and is ****** if no time has passed.
		{JMeter, regexp.MustCompile(`(?m)^.*= +\d+ in .+/s Avg: .*$`), readSummariser},
		{Curl, regexp.MustCompile(`(?m)^accepted +\d+$`), readCounts},
	}
}

// figure returns the only number that the expression finds; found is false if there is none.
func figure(text, expression string) (n int64, found bool, err error) {
	all := regexp.MustCompile(expression).FindAllStringSubmatch(text, -1)
	switch len(all) {
	case 0:
		return 0, false, nil
	case 1:
		n, err = count(all[0][1])
		return n, true, err
	}
	return 0, true, phrases.Error("twice", "text", strings.TrimSpace(all[1][0]))
}

// sum adds up counts.
func sum(numbers []string) (total int64, err error) {
	for _, text := range numbers {
		n, err := count(text)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// heyLimit is the number of replies after which hey 0.1.3 and later count no further statuses. Errors it counts all.
const heyLimit = 1_000_000

// readHey reads the summary of hey: the replies by status, and below them the errors.
func readHey(text string) (Summary, error) {
	_, text, _ = strings.Cut(text, "Status code distribution:\n")
	replies, failed, _ := strings.Cut(text, "Error distribution:\n")
	status, all := make(map[int]int64), int64(0)
	for _, m := range regexp.MustCompile(`(?m)^\s+\[(\d+)\]\s+(\d+) responses$`).FindAllStringSubmatch(replies, -1) {
		code, err := strconv.Atoi(m[1])
		n, wrong := count(m[2])
		if err != nil || wrong != nil || code < 100 || code > 599 {
			return Summary{}, phrases.Error("line", "line", strings.TrimSpace(m[0]))
		}
		status[code] += n
		all += n
	}
	var open int64
	for _, m := range regexp.MustCompile(`(?m)^\s+\[(\d+)\]\s+\S`).FindAllStringSubmatch(failed, -1) {
		n, err := count(m[1])
		if err != nil {
			return Summary{}, err
		}
		open += n
	}
	if len(status) == 0 && open == 0 {
		return Summary{}, phrases.Error("cut")
	}
	s := byStatus(Hey, status, open)
	if all == heyLimit {
		s.Exact, s.Limit = false, heyLimit
	}
	return s, nil
}

// readWrk reads the summary of wrk, which counts 2xx and 3xx together. With loadtest/wrk/deduct_stock.lua it counts the
// accepted replies. wrk counts requests in 64 bits and refused ones in 32. Beyond that it prints too few of them, so
// that the accepted ones remain an upper bound; the script counts in floating point, which is exact.
func readWrk(text string) (Summary, error) {
	requests, _, err := figure(text, `(?m)^ +(\d+) requests in `)
	if err != nil {
		return Summary{}, err
	}
	others, _, err := figure(text, `(?m)^ +Non-2xx or 3xx responses: (\d+)$`)
	if err != nil {
		return Summary{}, err
	}
	connections, _, err := figure(text, `(?m)^ +\d+ threads and (\d+) connections$`)
	if err != nil {
		return Summary{}, err
	}
	var open int64
	if m := regexp.MustCompile(`(?m)^ +Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)$`).
		FindStringSubmatch(text); m != nil {
		if open, err = sum(m[2:]); err != nil { // without connect errors, which sent nothing
			return Summary{}, err
		}
	}
	accepted, exact, err := figure(text, `(?m)^accepted +(\d+)$`)
	switch {
	case err != nil:
		return Summary{}, err
	case others > requests || accepted > requests:
		return Summary{}, phrases.Error("more", "n", max(others, accepted), "requests", requests)
	case !exact:
		accepted = requests - others
	}
	return Summary{Accepted: accepted, Exact: exact, Open: open + connections}, nil
}

// totals returns text without the sections in which k6 in full mode repeats the figures for each group and scenario.
func totals(text string) string {
	var b strings.Builder
	part := regexp.MustCompile(`^[█↳] (GROUP|SCENARIO): `)
	inPart := false
	for line := range strings.Lines(text) {
		switch title := strings.TrimLeft(line, " "); {
		case part.MatchString(title):
			inPart = true
		case strings.HasPrefix(title, "█ "), strings.HasPrefix(title, "running ("):
			inPart = false
		}
		if !inPart {
			b.WriteString(line)
		}
	}
	return b.String()
}

// readK6 reads the text that k6 prints at its end, in the form of version 1 or before. A counter that is called
// accepted, as in loadtest/k6/deduct_stock.js, is the number. Without one there is only http_req_failed, which depends
// on what the script expects.
func readK6(text string) (Summary, error) {
	requests, _, err := figure(text, `(?m)^\s*(?:[✓✗] )?http_reqs\.*: +(\d+) `)
	if err != nil {
		return Summary{}, err
	}
	accepted, exact, err := figure(text, `(?m)^\s*(?:[✓✗] )?accepted\.*: +(\d+)(?: |$)`)
	if err != nil {
		return Summary{}, err
	}
	if !exact {
		// Before version 1, the number after the cross is that of requests that did not fail.
		failed := regexp.MustCompile(
			`(?m)^\s*(?:[✓✗] )?http_req_failed\.*: +[\d.]+% +(?:(\d+) out of \d+|✓ (\d+) +✗ \d+)\s*$`).
			FindStringSubmatch(text)
		if failed == nil {
			return Summary{}, phrases.Error("lacks", "what", "accepted, http_req_failed")
		}
		n, err := count(failed[1] + failed[2])
		if err != nil {
			return Summary{}, err
		}
		accepted = requests - n
	}
	other, _, err := figure(text, `(?m)^\s*(?:[✓✗] )?other\.*: +(\d+)(?: |$)`)
	if err != nil {
		return Summary{}, err
	}
	return k6(requests, accepted, other, exact)
}

// k6 makes a summary of k6's counts. other is the counter of that name in our script, which includes lost replies.
// Without it, the number of lost replies is unknown.
func k6(requests, accepted, other int64, exact bool) (Summary, error) {
	if accepted < 0 || accepted > requests {
		return Summary{}, phrases.Error("more", "n", max(accepted, requests-accepted), "requests", requests)
	}
	return Summary{Format: K6, Accepted: accepted, Exact: exact, Open: other}, nil
}

// readK6JSON reads the JSON of k6: that of --summary-export; its machine-readable form, which has a list of metrics in
// "results"; or the data of handleSummary as written by a script, in which the figures of a metric are in "values".
func readK6JSON(text []byte) (Summary, error) {
	type figures struct{ Count, Passes, Matches *float64 }
	type metrics struct {
		figures
		Values *figures
	}
	var doc struct {
		Metrics map[string]metrics
		Results struct {
			Metrics []struct {
				Name string
				metrics
			}
		}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		return Summary{}, phrases.Error("json", "why", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Summary{}, phrases.Error("json", "why", "there is something after it")
	}
	if doc.Metrics == nil {
		doc.Metrics = make(map[string]metrics, len(doc.Results.Metrics))
	}
	for _, m := range doc.Results.Metrics {
		if _, twice := doc.Metrics[m.Name]; twice {
			return Summary{}, phrases.Error("twice", "text", m.Name)
		}
		doc.Metrics[m.Name] = m.metrics
	}
	var wrong error
	metric := func(name string, of func(*figures) *float64) (n int64, found bool) {
		m, found := doc.Metrics[name]
		f := &m.figures
		if m.Values != nil {
			f = m.Values
		}
		x := of(f)
		if !found || x == nil {
			return 0, false
		}
		if *x < 0 || *x > most || *x != float64(int64(*x)) {
			wrong = phrases.Error("number", "text", name+" "+strconv.FormatFloat(*x, 'g', -1, 64))
		}
		return int64(*x), true
	}
	counter := func(f *figures) *float64 { return f.Count }
	requests, told := metric("http_reqs", counter)
	accepted, exact := metric("accepted", counter)
	other, _ := metric("other", counter)
	failed, rated := metric("http_req_failed", func(f *figures) *float64 { return cmp.Or(f.Passes, f.Matches) })
	switch {
	case wrong != nil:
		return Summary{}, wrong
	case !told:
		return Summary{}, phrases.Error("lacks", "what", "metrics.http_reqs")
	case !exact && !rated:
		return Summary{}, phrases.Error("lacks", "what", "metrics.accepted, metrics.http_req_failed")
	case !exact:
		accepted = requests - failed
	}
	return k6(requests, accepted, other, exact)
}

// summarised finds the totals of JMeter's summariser: its name, the samples and the errors.
func summarised(text string) [][]string {
	return regexp.MustCompile(`(?m)^(?:.* )?(\S+) = +(\d+) in .+/s Avg: .* Err: +(\d+) \(.*$`).
		FindAllStringSubmatch(text, -1)
}

// runsOfJMeter returns how many runs the output of JMeter is of. Within a run it prints several totals, and a total is
// not smaller than the one before it.
func runsOfJMeter(text string) int {
	runs, samples := 1, make(map[string]int64)
	for _, m := range summarised(text) {
		n, _ := strconv.ParseInt(m[2], 10, 64)
		if n < samples[m[1]] {
			runs++
		}
		samples[m[1]] = n
	}
	return max(runs, len(regexp.MustCompile(`(?m)^\.\.\. end of run\s*$`).FindAllString(text, -1)))
}

// readSummariser reads the lines of JMeter's summariser, of which the last with = is the total. It counts the errors as
// the plan defines them, and no statuses.
func readSummariser(text string) (Summary, error) {
	lines := summarised(text)
	if len(lines) == 0 {
		return Summary{}, phrases.Error("cut")
	}
	last := lines[len(lines)-1]
	samples, err := count(last[2])
	failed, wrong := count(last[3])
	switch {
	case err != nil || wrong != nil:
		return Summary{}, errors.Join(err, wrong)
	case failed > samples:
		return Summary{}, phrases.Error("more", "n", failed, "requests", samples)
	}
	return Summary{Accepted: samples - failed, Open: failed}, nil
}

// readCounts reads the output of loadtest/curl/deduct_stock.sh.
func readCounts(text string) (Summary, error) {
	accepted, _, err := figure(text, `(?m)^accepted +(\d+)$`)
	if err != nil {
		return Summary{}, err
	}
	other, found, err := figure(text, `(?m)^other +(\d+)$`)
	if err == nil && !found {
		err = phrases.Error("cut")
	}
	return Summary{Accepted: accepted, Exact: true, Open: other}, err
}

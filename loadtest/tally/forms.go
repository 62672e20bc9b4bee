package tally

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
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
		{JMeter, regexp.MustCompile(`(?m)^.*= +\d+ in +[\d:.]+s? += +[\d.]+/s Avg: .*$`), readSummariser},
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

// readHey reads the summary of hey: the replies by status, and below them the errors.
func readHey(text string) (Summary, error) {
	_, text, _ = strings.Cut(text, "Status code distribution:\n")
	replies, failed, _ := strings.Cut(text, "Error distribution:\n")
	status := make(map[int]int64)
	for _, m := range regexp.MustCompile(`(?m)^\s+\[(\d+)\]\s+(\d+) responses$`).FindAllStringSubmatch(replies, -1) {
		code, err := strconv.Atoi(m[1])
		n, wrong := count(m[2])
		if err != nil || wrong != nil || code < 100 || code > 599 {
			return Summary{}, phrases.Error("line", "line", strings.TrimSpace(m[0]))
		}
		status[code] += n
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
	return byStatus(Hey, status, open), nil
}

// readWrk reads the summary of wrk, which counts 2xx and 3xx together. With loadtest/wrk/deduct_stock.lua it counts the
// accepted replies.
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

// readK6JSON reads the JSON of k6: that of --summary-export, or the data of handleSummary as written by a script, in
// which the figures of a metric are in "values".
func readK6JSON(text []byte) (Summary, error) {
	type figures struct{ Count, Passes *float64 }
	var doc struct {
		Metrics map[string]struct {
			figures
			Values *figures
		}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		return Summary{}, phrases.Error("json", "why", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Summary{}, phrases.Error("json", "why", "there is something after it")
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
	failed, rated := metric("http_req_failed", func(f *figures) *float64 { return f.Passes })
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

// readSummariser reads the lines of JMeter's summariser, of which the last with = is the total. It counts the errors as
// the plan defines them, and no statuses.
func readSummariser(text string) (Summary, error) {
	lines := regexp.MustCompile(`(?m)^.*= +(\d+) in +[\d:.]+s? += +[\d.]+/s Avg: .* Err: +(\d+) \(.*$`).
		FindAllStringSubmatch(text, -1)
	if len(lines) == 0 {
		return Summary{}, phrases.Error("cut")
	}
	last := lines[len(lines)-1]
	samples, err := count(last[1])
	failed, wrong := count(last[2])
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

// readJTL reads a JTL file of JMeter in CSV, a line for each sample. The lines of transaction controllers, and of
// samplers that ask no URL, are left out.
func readJTL(r io.Reader) (Summary, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return Summary{}, phrases.Error("csv", "why", err)
	}
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	code, message, link := slices.Index(head, "responseCode"), slices.Index(head, "responseMessage"),
		slices.Index(head, "URL")
	if code < 0 {
		return Summary{}, phrases.Error("lacks", "what", "responseCode")
	}
	status, open := make(map[int]int64), int64(0)
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, phrases.Error("csv", "why", err)
		}
		switch n, err := strconv.Atoi(row[code]); {
		case message >= 0 && strings.HasPrefix(row[message], "Number of samples in transaction"):
		case err == nil && 100 <= n && n <= 599 && link >= 0 && (row[link] == "" || row[link] == "null"):
		case err == nil && 100 <= n && n <= 599:
			status[n]++
		case strings.HasPrefix(row[code], "Non HTTP response code"):
			open++
		default:
			line, _ := in.FieldPos(code)
			return Summary{}, phrases.Error("code", "line", line, "code", row[code])
		}
	}
	if len(status) == 0 && open == 0 {
		return Summary{}, phrases.Error("cut")
	}
	return byStatus(JMeter, status, open), nil
}

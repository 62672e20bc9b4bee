// Package tally reads the summaries of other load tools: how many of their requests were accepted.
package tally

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"example.com/stock/internal/words"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// A Format is a tool whose summaries Read understands.
type Format string

// The formats. Of k6 there are the text and three forms of JSON (--summary-export, the same in its machine-readable
// form, handleSummary), of JMeter the lines of its summariser and a JTL file in CSV. Curl is the script
// loadtest/curl/deduct_stock.sh.
const (
	Hey    Format = "hey"
	Wrk    Format = "wrk"
	K6     Format = "k6"
	JMeter Format = "jmeter"
	Curl   Format = "curl"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Hey, Wrk, K6, JMeter, Curl} }

// A Summary has the counts of a tool.
type Summary struct {
	Format Format
	// Status counts the replies by HTTP status; nil: the tool does not.
	Status map[int]int64
	// Accepted is the number of accepted replies. Unless Exact, it is an upper bound, because the tool counts other
	// replies with them, such as redirects or what a plan defines as success. With Status it counts 2xx.
	Accepted int64
	Exact    bool
	// Limit is the number of replies after which the tool stopped counting. Then Status and Accepted are lower bounds,
	// and Exact is false. 0: it counted all.
	Limit int64
	// Open is the number of requests that may have sold without a counted reply: those with a network error, and for
	// wrk one for each connection, which it cuts off at its end.
	Open int64
}

// maxText is the longest summary, in bytes, that is not a JTL file. Summaries of tools have some kilobytes.
const maxText = 16 << 20

// Read reads the summary of one run. An empty format is detected. A JTL file must contain only the sales, because other
// requests would be counted with them. The error has texts in both languages.
func Read(r io.Reader, format Format) (Summary, error) {
	if format != "" && !slices.Contains(Formats(), format) {
		return Summary{}, phrases.Error("format", "format", string(format), "formats", names(Formats()))
	}
	// PowerShell 5 redirects output in UTF-16, and others begin UTF-8 with a byte order mark.
	in := bufio.NewReaderSize(transform.NewReader(r, unicode.BOMOverride(transform.Nop)), 64<<10)
	start, err := in.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return Summary{}, err
	}
	start = bytes.TrimLeft(start, " \t\r\n")
	line, _, _ := bytes.Cut(start, []byte("\n"))
	switch {
	case len(start) == 0:
		return Summary{}, phrases.Error("empty")
	case start[0] == '<':
		return Summary{}, phrases.Error("xml")
	case bytes.Contains(line, []byte("responseCode")) && (format == "" || format == JMeter):
		return readJTL(in, line)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxText+1))
	switch {
	case err != nil:
		return Summary{}, err
	case len(text) > maxText:
		return Summary{}, phrases.Error("long", "limit", maxText)
	}
	if start[0] == '{' && (format == "" || format == K6) {
		return readK6JSON(text)
	}
	return readText(strings.ReplaceAll(string(text), "\r\n", "\n"), format)
}

// readText reads a summary for people. k6 prints it in colour, if its output was a terminal.
func readText(text string, format Format) (Summary, error) {
	text = totals(regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`).ReplaceAllString(text, ""))
	var found []Format
	for _, f := range forms() {
		if f.sign.MatchString(text) {
			found = append(found, f.format)
		}
	}
	// The script for wrk adds the lines of the curl script to wrk's output.
	if slices.Contains(found, Wrk) {
		found = slices.DeleteFunc(found, func(f Format) bool { return f == Curl })
	}
	switch {
	case len(found) == 0 && format == "":
		return Summary{}, phrases.Error("unknown", "formats", names(Formats()))
	case format != "" && !slices.Contains(found, format):
		return Summary{}, phrases.Error("other", "format", string(format))
	case format == "" && len(found) > 1:
		return Summary{}, phrases.Error("ambiguous", "formats", names(found))
	case format == "":
		format = found[0]
	}
	all := forms()
	form := &all[slices.IndexFunc(all, func(f form) bool { return f.format == format })]
	n := len(form.sign.FindAllString(text, -1))
	if format == JMeter {
		n = runsOfJMeter(text)
	}
	if n > 1 {
		return Summary{}, phrases.Error("several", "n", n, "format", string(format))
	}
	s, err := form.read(text)
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w", format, err)
	}
	s.Format = format
	return s, nil
}

// byStatus makes a summary of counts by status.
func byStatus(format Format, status map[int]int64, open int64) Summary {
	s := Summary{Format: format, Status: status, Exact: true, Open: open}
	for code, n := range status {
		if 200 <= code && code <= 299 {
			s.Accepted += n
		}
	}
	return s
}

func names(list []Format) string {
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = string(f)
	}
	return strings.Join(texts, ", ")
}

package tally

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"strings"
)

// readJTL reads a JTL file of JMeter in CSV, a line for each sample; head is its first line. The lines of transaction
// controllers, and of samplers that ask no URL, are left out. A file that several runs have written is refused.
func readJTL(in *bufio.Reader, head []byte) (Summary, error) {
	table := csv.NewReader(in)
	table.ReuseRecord = true
	if i := bytes.IndexAny(head, ",;\t|"); i >= 0 { // jmeter.save.saveservice.default_delimiter
		table.Comma = rune(head[i])
	}
	names, err := table.Read()
	if err != nil {
		return Summary{}, phrases.Error("csv", "why", err)
	}
	column := make(map[string]int, len(names))
	for i, name := range names {
		column[name] = i
	}
	_, hasLink := column["URL"]
	if _, known := column["responseCode"]; !known {
		return Summary{}, phrases.Error("lacks", "what", "responseCode")
	}
	status, open, runs := make(map[int]int64), int64(0), make(groups)
	for {
		row, err := table.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, phrases.Error("csv", "why", err)
		}
		cell := func(name string) string {
			if i, known := column[name]; known {
				return row[i]
			}
			return ""
		}
		code, link := cell("responseCode"), cell("URL")
		line, _ := table.FieldPos(0)
		if code == "responseCode" || runs.again(cell) {
			return Summary{}, phrases.Error("appended", "line", line)
		}
		switch n, err := strconv.Atoi(code); {
		case strings.HasPrefix(cell("responseMessage"), "Number of samples in transaction"):
		case err == nil && 100 <= n && n <= 599 && hasLink && (link == "" || link == "null"):
		case err == nil && 100 <= n && n <= 599:
			status[n]++
		case strings.HasPrefix(code, "Non HTTP response code"):
			open++
		default:
			return Summary{}, phrases.Error("code", "line", line, "code", code)
		}
	}
	if len(status) == 0 && open == 0 {
		return Summary{}, phrases.Error("cut")
	}
	return byStatus(JMeter, status, open), nil
}

// groups are the thread groups of a JTL file, by the names of their threads without the number.
type groups map[string]*group

// A group is what a JTL file has shown of a thread group so far.
type group struct {
	threads map[string]thread

	// The last sample at whose end only its own thread was alive.
	alone string // the thread; empty: there was none
	end   int64  // in ms
	known int    // threads that had samples until then
}

// A thread is the first sample of a thread: its place among those of the group, and its start in ms.
type thread struct {
	place int
	start int64
}

// startTime is less than the time that JMeter takes to start, in ms.
const startTime = 1000

// again reports whether a second run begins with a sample. JMeter appends to a file without a mark, and names the
// threads of each run alike. But a thread that ends does not come back within a run: when it has a sample again after
// another was the only one of the group, it is the thread of another run. Two runs of a single thread are not told from
// one.
func (g groups) again(cell func(column string) string) bool {
	name, alive := cell("threadName"), cell("grpThreads")
	start, err := strconv.ParseInt(cell("timeStamp"), 10, 64)
	took, wrong := strconv.ParseInt(cell("elapsed"), 10, 64)
	if err != nil || wrong != nil || alive == "" {
		return false // the plan leaves these columns out, or writes dates
	}
	key := name[:strings.LastIndexByte(name, '-')+1]
	if g[key] == nil {
		g[key] = &group{threads: make(map[string]thread)}
	}
	at := g[key]
	first, seen := at.threads[name]
	if !seen {
		first = thread{len(at.threads), start}
		at.threads[name] = first
	}
	if name != at.alone && first.place < at.known && first.start < at.end && start > at.end+startTime {
		return true
	}
	if alive == "1" {
		at.alone, at.end, at.known = name, start+took, len(at.threads)
	}
	return false
}

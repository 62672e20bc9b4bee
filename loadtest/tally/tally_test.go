package tally_test

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"go.uber.org/goleak"

	"example.com/stock/loadtest/tally"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What hey and wrk printed, and what k6 and JMeter print by their documentation.
func TestRead(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]tally.Summary{
		"hey.txt": {
			Format: tally.Hey, Status: map[int]int64{200: 100, 409: 200}, Accepted: 100, Exact: true,
		},
		"hey-refused.txt": {Format: tally.Hey, Status: map[int]int64{}, Exact: true, Open: 40},
		"hey-z.txt":       {Format: tally.Hey, Status: map[int]int64{200: 227}, Accepted: 227, Exact: true},
		"hey-million.txt": {
			Format: tally.Hey, Status: map[int]int64{200: 999873, 409: 127}, Accepted: 999873, Limit: 1_000_000,
		},
		"wrk.txt":                        {Format: tally.Wrk, Accepted: 50, Open: 8},
		"wrk-latency.txt":                {Format: tally.Wrk, Accepted: 234, Open: 8},
		"wrk-script.txt":                 {Format: tally.Wrk, Accepted: 50, Exact: true, Open: 8},
		"wrk-errors.txt":                 {Format: tally.Wrk, Accepted: 50, Open: 30 + 4 + 5 + 6},
		"k6-v1.txt":                      {Format: tally.K6, Accepted: 100, Exact: true},
		"k6-legacy.txt":                  {Format: tally.K6, Accepted: 60},
		"k6-full.txt":                    {Format: tally.K6, Accepted: 100, Exact: true},
		"k6-color.txt":                   {Format: tally.K6, Accepted: 100, Exact: true},
		"k6-summary-export.json":         {Format: tally.K6, Accepted: 100, Exact: true},
		"k6-handle-summary.json":         {Format: tally.K6, Accepted: 100},
		"k6-machine-readable.json":       {Format: tally.K6, Accepted: 100, Exact: true, Open: 2},
		"k6-machine-readable-plain.json": {Format: tally.K6, Accepted: 100},
		"jmeter-summariser.txt":          {Format: tally.JMeter, Accepted: 100, Open: 200},
		"jmeter-comma.txt":               {Format: tally.JMeter, Accepted: 100, Open: 200},
		"jmeter-instant.txt":             {Format: tally.JMeter, Accepted: 1},
		"jmeter-semicolon.jtl": {
			Format: tally.JMeter, Status: map[int]int64{200: 3, 409: 2}, Accepted: 3, Exact: true,
		},
		"jmeter.jtl": {
			Format: tally.JMeter, Status: map[int]int64{200: 3, 409: 1, 503: 1}, Accepted: 3, Exact: true, Open: 1,
		},
		"curl.txt": {Format: tally.Curl, Accepted: 100, Exact: true, Open: 2},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		windows := "\ufeff" + strings.ReplaceAll(string(text), "\n", "\r\n")
		for how, text := range map[string]string{
			"as it is": string(text), "of Windows": windows, "of PowerShell 5": utf16LE(windows),
		} {
			for _, format := range []tally.Format{"", want.Format} {
				got, err := tally.Read(strings.NewReader(text), format)
				if err != nil || !maps.Equal(got.Status, want.Status) || got.Format != want.Format ||
					got.Accepted != want.Accepted || got.Exact != want.Exact || got.Limit != want.Limit ||
					got.Open != want.Open {
					t.Errorf("%s %s, format %q: got %+v, %v; want %+v", file, how, format, got, err, want)
				}
			}
		}
	}
}

// utf16LE returns the text as PowerShell 5 redirects it to a file.
func utf16LE(text string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return string(b)
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	data := func(file string) string {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	hey, wrk, k6, jtl := data("hey.txt"), data("wrk.txt"), data("k6-v1.txt"), data("jmeter.jtl")
	appended, summariser := data("jmeter-appended.jtl"), data("jmeter-summariser.txt")
	cut := func(text, at string) string { before, _, _ := strings.Cut(text, at); return before + at }
	for _, row := range []struct {
		name, text string
		format     tally.Format
		want       string
	}{
		{"nothing", " \n", "", "is empty"},
		{"a tool that nobody knows", "300 requests, all fine\n", "", "is no summary of a tool that is known here"},
		{"a format that nobody knows", hey, "ab", "ab is no format; there is hey, wrk, k6, jmeter, curl"},
		{"another tool", hey, tally.Wrk, "has no summary of wrk"},
		{"two tools", hey + wrk, "", "could be of several tools (hey, wrk)"},
		{"two runs", hey + hey, "", "has 2 summaries of hey"},
		{
			"two runs in full mode", data("k6-full.txt") + data("k6-full.txt"), "", "has 2 summaries of k6",
		},
		{"two runs of JMeter", summariser + summariser, "", "has 2 summaries of jmeter"},
		{"two runs of JMeter, the second shorter", data("jmeter-twice.txt"), "", "has 2 summaries of jmeter"},
		{
			"two runs of JMeter, in its log", "summary = 300 in 5s = 58.9/s Avg: 1 Min: 1 Max: 1 Err: 0 (0.00%)\n" +
				"summary = 40 in 5s = 58.9/s Avg: 1 Min: 1 Max: 1 Err: 0 (0.00%)\n", "", "has 2 summaries of jmeter",
		},
		{
			"two runs in one JTL", appended, "",
			"line 9 is of a second run, because JMeter appends to a file that exists: remove the file",
		},
		{"two JTL files in one", jtl + jtl, "", "line 11 is of a second run"},
		{
			"JSON, a metric twice", `{"results":{"metrics":[{"name":"http_reqs","values":{"count":1}},` +
				`{"name":"http_reqs","values":{"count":1}}]}}`, "", "http_reqs a second time",
		},
		{"hey, cut off", cut(hey, "Status code distribution:\n"), "", "hey: is cut off"},
		{"hey, no status", strings.Replace(hey, "[409]", "[999]", 1), "", "[999]\t200 responses is no count"},
		{"hey, no status again", strings.Replace(hey, "[409]", "[99]", 1), "", "[99]\t200 responses is no count"},
		{
			"hey, too many", strings.Replace(hey, "200 responses", "99999999999999999999 responses", 1), "",
			"is no count of replies by status",
		},
		{"wrk, too many refused", strings.Replace(wrk, "4887", "48870", 1), "", "wrk: counts 48870 of 4937 requests"},
		{"wrk, no number", strings.Replace(wrk, "4887", "99999999999999999999", 1), "", "is no count of requests"},
		{
			"wrk, too many requests", strings.Replace(wrk, "  4937 requests", "  99999999999999999999 requests", 1), "",
			"is no count of requests",
		},
		{
			"wrk, too many connections", strings.Replace(wrk, "8 connections", "99999999999999999999 connections", 1),
			"", "is no count of requests",
		},
		{
			"wrk, too many errors", wrk + "  Socket errors: connect 0, read 99999999999999999999, write 0, timeout 0\n",
			"", "is no count",
		},
		{"wrk, accepted twice", wrk + "accepted 1\naccepted 2\n", "", "accepted 2 a second time"},
		{"wrk, told twice", wrk + "  Non-2xx or 3xx responses: 1\n", "", "Non-2xx or 3xx responses: 1 a second time"},
		{
			"k6 without a count", strings.NewReplacer("accepted.", "sales.", "http_req_failed.", "lost.").Replace(k6),
			"", "k6: lacks accepted, http_req_failed",
		},
		{"k6, too many", strings.Replace(k6, ": 100     170", ": 301     170", 1), "", "counts 301 of 300 requests"},
		{"no JSON of k6", `{"metrics": {`, "", "is no JSON of k6"},
		{"other JSON", `{"runs": []}`, "", "lacks metrics.http_reqs"},
		{"JSON twice", `{"metrics":{}} {}`, "", "there is something after it"},
		{
			"JSON, half a request", `{"metrics":{"http_reqs":{"count":1.5},"accepted":{"count":1}}}`, "",
			"http_reqs 1.5 is no count",
		},
		{
			"JSON without refusals", `{"metrics":{"http_reqs":{"count":1}}}`, "",
			"lacks metrics.accepted, metrics.http_req_failed",
		},
		{
			"JSON, more refused than sent", `{"metrics":{"http_reqs":{"count":1},"http_req_failed":{"passes":2}}}`, "",
			"counts 2 of 1 requests",
		},
		{"XML", "<?xml version=\"1.0\"?><testResults>", "", "is XML: let JMeter write CSV"},
		{"JTL without a line", cut(jtl, "Connect\n"), "", "is cut off, or has no results"},
		{"JTL, cut off", jtl[:len(jtl)-30], "", "is no CSV: record on line 10: wrong number of fields"},
		{"JTL, no code", strings.Replace(jtl, ",409,", ",4o9,", 1), "", "line 4: 4o9 is no response code"},
		{"a summariser that only began", "summary +    112 in 00:00:02 =   56.3/s Avg:    15 Min:     1 Max:   123 " +
			"Err:    40 (35.71%) Active: 30\n", "", "is no summary of a tool"},
		{"a summariser with more errors than samples", "summary =    1 in 00:00:02 =   56.3/s Avg:    15 Min:     1 " +
			"Max:   123 Err:    40 (35.71%)\n", "", "jmeter: counts 40 of 1 requests"},
		{"too long", strings.Repeat("x\n", 9<<20), "", "is longer than 16777216 bytes"},
		{"the script for curl, cut off", "accepted  100\n", "", "curl: is cut off"},
	} {
		got, err := tally.Read(strings.NewReader(row.text), row.format)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %+v, %v; want %q", row.name, got, err, row.want)
		}
	}
}

// Whatever the text: no panic, no count below 0, and nothing beyond what an int64 holds.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "")
	}
	f.Add("summary = 1 in 0.5s = 2.0/s Avg: 1 Err: 0 (0.00%)", "jmeter")
	f.Fuzz(func(t *testing.T, text, format string) {
		s, err := tally.Read(strings.NewReader(text), tally.Format(format))
		if err != nil {
			return
		}
		var accepted int64
		for code, n := range s.Status {
			if code < 100 || code > 599 || n < 0 {
				t.Errorf("%d replies with status %d", n, code)
			}
			if code/100 == 2 {
				accepted += n
			}
		}
		if s.Accepted < 0 || s.Open < 0 || s.Format == "" || s.Status != nil && accepted != s.Accepted ||
			format != "" && string(s.Format) != format {
			t.Errorf("%+v", s)
		}
	})
}

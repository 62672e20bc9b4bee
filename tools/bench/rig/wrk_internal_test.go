package rig

import (
	"strings"
	"testing"
)

const printed = `Running 2s test @ http://127.0.0.1:18999/
  2 threads and 30 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.70ms    1.88ms  14.15ms   81.66%
    Req/Sec     1.55k   396.52     2.06k    70.00%
  Latency Distribution
     50%  812.00us
     75%    3.59ms
     90%    5.42ms
     99%    1.20s
  1540 requests in 2.01s, 834.86KB read
`

func TestParseWrk(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       Load
	}{
		{"all answered 2xx", printed, Load{Requests: 1540, Seconds: 2.01, P50: 0.812, P99: 1200, Bytes: 834.86 * 1024}},
		{
			"refusals and broken connections",
			printed + "  Socket errors: connect 1, read 20, write 0, timeout 300\n  Non-2xx or 3xx responses: 1500\n",
			Load{
				Requests: 1540, Refused: 1500, Broken: 321, Seconds: 2.01, P50: 0.812, P99: 1200,
				Bytes: 834.86 * 1024,
			},
		},
		{
			"megabytes and minutes", strings.NewReplacer("834.86KB", "1.50MB", "2.01s", "1.00m").Replace(printed),
			Load{Requests: 1540, Seconds: 60, P50: 0.812, P99: 1200, Bytes: 1.5 * 1024 * 1024},
		},
	} {
		got, err := parseWrk(row.text)
		if err != nil || got != row.want {
			t.Errorf("%s: got %+v, %v, want %+v", row.name, got, err, row.want)
		}
	}
	for name, text := range map[string]string{
		"nothing":        "",
		"no figures":     "unable to connect to 127.0.0.1:1 Connection refused\n",
		"no percentiles": "  1540 requests in 2.01s, 834.86KB read\n",
		"no time":        strings.Replace(printed, "2.01s", "2.01", 1),
		"a bad latency":  strings.Replace(printed, "812.00us", "nan", 1),
	} {
		if got, err := parseWrk(text); err == nil {
			t.Errorf("%s: no error, but %+v", name, got)
		}
	}
}

func TestOneOfWrksRequestsIsNotOK(t *testing.T) {
	if got := (Load{Requests: 10, Refused: 3, Broken: 2}).OK(); got != 7 {
		t.Errorf("got %d, want the 7 that were answered with 2xx", got)
	}
}

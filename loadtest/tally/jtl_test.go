package tally_test

import (
	"fmt"
	"strings"
	"testing"

	"example.com/stock/loadtest/tally"
)

// A transaction controller has a line with the code of its last sample, which is no request. Without the column URL
// its message alone says so.
func TestATransactionOfJMeterIsNoRequest(t *testing.T) {
	const transaction = `"Number of samples in transaction : 1, number of failing samples : 0"`
	for name, text := range map[string]string{
		"with the URL":    "responseCode,responseMessage,URL\n200,OK,http://a/\n200," + transaction + ",http://a/\n",
		"without the URL": "responseCode,responseMessage\n200,OK\n200," + transaction + "\n",
	} {
		s, err := tally.Read(strings.NewReader(text), tally.JMeter)
		if err != nil || s.Accepted != 1 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// A status is a number from 100 to 599; another code is no result of JMeter, and the error names its line.
func TestTheCodesOfJMeter(t *testing.T) {
	for code, right := range map[string]bool{
		"99": false, "100": true, "200": true, "599": true, "600": false, "x": false,
		"Non HTTP response code: java.net.ConnectException": true,
	} {
		for _, link := range []string{"http://a/", "null"} {
			text := "responseCode,responseMessage,URL\n200,OK,http://a/\n" + code + ",OK," + link + "\n"
			_, err := tally.Read(strings.NewReader(text), tally.JMeter)
			if (err == nil) != right || err != nil && !strings.Contains(err.Error(), "3") {
				t.Errorf("%s, %s: %v", code, link, err)
			}
		}
	}
}

// A second run is told from a long one by a thread that works again after another of its group had been alone.
func TestAppendedRunsOfJMeter(t *testing.T) {
	// Each sample is a thread of the group, its start, and the number of threads alive at its end, 10 ms later.
	type sample struct {
		thread string
		start  int
		alive  int
	}
	for _, row := range []struct {
		name    string
		samples []sample
		two     bool
	}{
		{"one run", []sample{{"g 1-1", 0, 2}, {"g 1-2", 0, 2}, {"g 1-1", 5000, 2}, {"g 1-2", 5000, 1}}, false},
		{"a thread goes on alone", []sample{{"g 1-1", 0, 2}, {"g 1-2", 0, 1}, {"g 1-2", 9000, 1}}, false},
		{"threads start one by one", []sample{{"g 1-1", 0, 1}, {"g 1-2", 5000, 2}, {"g 1-2", 9000, 2}}, false},
		{"one thread", []sample{{"g 1-1", 0, 1}, {"g 1-1", 90000, 1}}, false}, // two runs look like this, too
		{"a late line", []sample{{"g 1-2", 5, 2}, {"g 1-1", 0, 1}, {"g 1-2", 15, 2}}, false},
		{"another group", []sample{{"a 1-1", 0, 1}, {"b 2-1", 100, 1}, {"a 1-1", 9000, 1}}, false},
		{"another computer", []sample{{"x-g 1-1", 0, 1}, {"y-g 1-2", 5, 1}, {"x-g 1-1", 9000, 1}}, false},
		{"two runs", []sample{{"g 1-1", 0, 2}, {"g 1-2", 0, 1}, {"g 1-1", 9000, 2}}, true},
		{"two runs, the last thread first", []sample{
			{"g 1-1", 0, 2}, {"g 1-2", 0, 1}, {"g 1-2", 9000, 2}, {"g 1-1", 9000, 2},
		}, true},
	} {
		text := "timeStamp,elapsed,responseCode,threadName,grpThreads,URL\n"
		for _, s := range row.samples {
			text += fmt.Sprintf("%d,10,200,%s,%d,http://a/\n", 1795515302000+s.start, s.thread, s.alive)
		}
		s, err := tally.Read(strings.NewReader(text), "")
		if two := err != nil && strings.Contains(err.Error(), "of a second run"); two != row.two ||
			!two && (err != nil || s.Accepted != int64(len(row.samples))) {
			t.Errorf("%s: %+v, %v", row.name, s, err)
		}
	}
}

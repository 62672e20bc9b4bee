package tally_test

import (
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

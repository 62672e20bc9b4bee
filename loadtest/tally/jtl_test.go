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

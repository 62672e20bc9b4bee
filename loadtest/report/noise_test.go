package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

func wellFormed(t *testing.T, name string, text []byte) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// rates returns runs that differ only in what they sold per second.
func rates(list ...float64) []*loadtest.Result {
	var runs []*loadtest.Result
	for _, rate := range list {
		r := mixed()
		r.Latency.Sold = rate
		runs = append(runs, r)
	}
	return runs
}

// The probabilities are those of the published tables of the U distribution.
func TestNoise(t *testing.T) {
	for _, row := range []struct {
		name   string
		a, b   []float64
		p      float64
		answer string
	}{
		{"four and four, apart", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70, "exceeds the noise"},
		{"three and five, apart", []float64{1, 2, 3}, []float64{5, 6, 7, 8, 9}, 2.0 / 56, "exceeds the noise"},
		{"three and three, apart", []float64{1, 2, 3}, []float64{4, 5, 6}, 0.1, "too few"},
		{"three and three, mixed", []float64{1, 4, 3}, []float64{2, 5, 6}, 0.4, "within the noise"},
		{
			"five and five, one pair crossed",
			[]float64{1, 2, 3, 4, 6},
			[]float64{5, 7, 8, 9, 10},
			4.0 / 252,
			"exceeds the noise",
		},
		{"the same", []float64{1, 2, 3, 4}, []float64{1, 2, 3, 4}, 1, "no difference"},
		{"all alike", []float64{7, 7, 7}, []float64{7, 7, 7}, 1, "no difference"},
		{"single", []float64{1}, []float64{9}, 1, "noise is not known"},
		{"one against many", []float64{1}, []float64{7, 8, 9}, 0.5, "noise is not known"},
	} {
		m := report.Differences(rates(row.a...), rates(row.b...))[0]
		if math.Abs(m.P-row.p) > 1e-9 || !strings.Contains(m.Answer.EN, row.answer) {
			t.Errorf("%s: chance %.4f, %q; want %.4f, %q", row.name, m.P, m.Answer.EN, row.p, row.answer)
		}
	}
	// Above 24, the approximation continues where the exact count ends: 15 and 15, alternating.
	var a, b, c []float64
	for i := range 15 {
		a, b, c = append(a, float64(2*i)), append(b, float64(2*i+1)), append(c, float64(100+i))
	}
	if m := report.Differences(rates(a...), rates(b...))[0]; m.P < 0.5 || m.Answer.EN != "within the noise" {
		t.Errorf("interleaved: %.4f %s", m.P, m.Answer)
	}
	if m := report.Differences(rates(a...), rates(c...))[0]; m.P > 1e-4 || m.Answer.EN != "exceeds the noise" {
		t.Errorf("apart: %.6f %s", m.P, m.Answer)
	}
}

func TestComparison(t *testing.T) {
	c := report.Compare("before", rates(100, 110, 120, 130), "after", rates(200, 210, 220, 230))
	var b bytes.Buffer
	if err := c.WriteText(&b, ""); err != nil {
		t.Fatal(err)
	}
	mustHave(t, b.String(), "A: before (4 runs)", "115 [100, 130]", "215 [200, 230]", "+87.0 %", "exceeds the noise",
		"Mann-Whitney")
	if strings.Contains(b.String(), "Not the same") {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	if err := report.Compare("a", rates(1), "b", []*loadtest.Result{lossy(10), mixed()}).WriteText(&b, ""); err != nil {
		t.Fatal(err)
	}
	mustHave(t, b.String(), "how much of a difference is noise is not known", "Not the same: load: ",
		"one side mixes none")
}

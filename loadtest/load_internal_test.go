package loadtest

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// dues returns the times at which the requests of p are due.
func dues(t *testing.T, p Plan) []time.Duration {
	t.Helper()
	p.Strategy, p.Seed = "x", 7
	p, err := p.filled()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(p.schedule())
}

func TestEvenArrivals(t *testing.T) {
	got := dues(t, Plan{Rate: Rate{100, 100}, Arrivals: Even, Requests: 4})
	want := []time.Duration{5 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, 35 * time.Millisecond}
	for i := range want {
		if off := (got[i] - want[i]).Abs(); len(got) != 4 || off > time.Microsecond {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	if n := len(dues(t, Plan{Rate: Rate{1000, 1000}, Arrivals: Even, Duration: 3 * time.Second})); n != 3000 {
		t.Errorf("%d requests in 3 s at 1000/s", n)
	}
}

// In each part of the duration, a ramp sends as many requests as the area under the rate.
func TestRampOfArrivals(t *testing.T) {
	for _, rate := range []Rate{{0, 1000}, {1000, 0}, {200, 800}, {500, 500.0001}} {
		for _, arrivals := range []Arrivals{Even, Poisson} {
			list := dues(t, Plan{Rate: rate, Arrivals: arrivals, Duration: 10 * time.Second})
			if !slices.IsSorted(list) {
				t.Errorf("%s %s: not in order", rate, arrivals)
			}
			for second := range 10 {
				from := time.Duration(second) * time.Second
				n := 0
				for _, due := range list {
					if due >= from && due < from+time.Second {
						n++
					}
				}
				want := rate.From + (rate.To-rate.From)*(float64(second)+0.5)/10
				slack := 1.0
				if arrivals == Poisson {
					slack = 5 * math.Sqrt(want) // five standard deviations, and the seed is fixed
				}
				if math.Abs(float64(n)-want) > slack+0.5 {
					t.Errorf("%s %s: %d requests in second %d, want about %.0f", rate, arrivals, n, second, want)
				}
			}
		}
	}
}

// The gaps of Poisson arrivals have the mean and the deviation of an exponential distribution, which are the same.
func TestPoissonArrivals(t *testing.T) {
	list := dues(t, Plan{Rate: Rate{100, 100}, Requests: 100_000})
	var sum, squares float64
	for i := 1; i < len(list); i++ {
		gap := (list[i] - list[i-1]).Seconds()
		sum += gap
		squares += gap * gap
	}
	n := float64(len(list) - 1)
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean-0.01) > 0.0002 || math.Abs(deviation-0.01) > 0.0002 {
		t.Errorf("gaps have mean %.5f s and deviation %.5f s, want 0.01 both", mean, deviation)
	}
}

// The same seed gives the same requests, another seed gives others, and the shares match the skew.
func TestMix(t *testing.T) {
	const n = 50_000
	counts := func(seed uint64, skew Skew, n int) (skus map[string]int, quantities map[int64]int, text string) {
		m := newMix(&Plan{SKU: "pen", SKUs: 4, Skew: skew, Quantities: []int64{1, 2, 5}, Seed: seed})
		skus, quantities = make(map[string]int), make(map[int64]int)
		var b strings.Builder
		for i := range n {
			sku, quantity := m.pick(i + 1)
			skus[sku]++
			quantities[quantity]++
			if i < 100 {
				b.WriteString(sku)
			}
		}
		return skus, quantities, b.String()
	}
	for skew, want := range map[Skew][]float64{
		"": {0.25, 0.25, 0.25, 0.25}, Uniform: {0.25, 0.25, 0.25, 0.25}, "hot:0.7": {0.7, 0.1, 0.1, 0.1},
		"hot:1":  {1, 0, 0, 0},
		"zipf:1": {0.48, 0.24, 0.16, 0.12},
	} {
		skus, quantities, text := counts(3, skew, n)
		for i, share := range want {
			name := "pen-" + string(rune('1'+i))
			if got := float64(skus[name]) / n; math.Abs(got-share) > 0.01 {
				t.Errorf("%s: %s has %.3f of the requests, want %.3f", skew, name, got, share)
			}
		}
		for _, q := range []int64{1, 2, 5} {
			if got := float64(quantities[q]) / n; math.Abs(got-1.0/3) > 0.01 {
				t.Errorf("%s: %d units in %.3f of the requests", skew, q, got)
			}
		}
		_, _, again := counts(3, skew, 100)
		_, _, other := counts(4, skew, 100)
		if again != text || other == text && skew != "hot:1" {
			t.Errorf("%s: the same seed must give the same, another one others", skew)
		}
	}
}

// Values that the parsers of the command line accept can be written, and read as the same. A plan with them is either
// refused, or has an ordered schedule.
func FuzzParseLoad(f *testing.F) {
	for _, text := range []string{"1000", "0..5", "1..5", "1,2,5", "zipf:1.1", "hot:0.8", "1e3", "0x10", "..", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if rate, err := ParseRate(text); err == nil {
			if again, err := ParseRate(rate.String()); err != nil || again != rate {
				t.Fatalf("%q is %s, which is %v, %v", text, rate, again, err)
			}
			p := &Plan{Rate: rate, Duration: time.Second, Seed: 1}
			last, n := time.Duration(0), 0
			for due := range p.schedule() {
				if due < last || due >= time.Second {
					t.Fatalf("%q: due at %v after %v", text, due, last)
				}
				if last = due; n == 100 {
					break
				}
				n++
			}
		}
		if list, err := ParseQuantities(text); err == nil {
			p := &Plan{Quantities: list}
			if again, err := ParseQuantities(p.quantityText()); err != nil || !slices.Equal(again, list) {
				t.Fatalf("%q is %v, which is %v, %v", text, list, again, err)
			}
		}
		if weights, err := Skew(text).Weights(3); err == nil &&
			(!slices.IsSorted(weights) || math.Abs(weights[2]-1) > 1e-9) {
			t.Fatalf("%q: %v", text, weights)
		}
	})
}

package loadtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
)

// maxSKUs limits the SKUs of a run, since the stock of each is set before and read after it.
const maxSKUs = 1000

// Streams of random numbers from one seed. The streams of the requests follow these.
const (
	arrivalStream = iota
	firstRequest
)

// Uniform is the Skew that makes all SKUs equally likely.
const Uniform Skew = "uniform"

// A Skew says how likely each SKU is: "uniform" (or empty); "zipf:1.1", where the n-th SKU is as likely as 1/n^1.1;
// "hot:0.8", where the first SKU gets 0.8 of the requests and the others share the rest.
type Skew string

// Weights returns the running sum of the probabilities of n SKUs, which ends with 1.
func (s Skew) Weights(n int) ([]float64, error) {
	kind, text, _ := strings.Cut(string(s), ":")
	x, err := strconv.ParseFloat(text, 64)
	sum, total := make([]float64, n), 0.0
	for i := range sum {
		w := 1.0
		switch {
		case s == "" || s == Uniform:
		case kind == "zipf" && err == nil && x > 0 && x <= 10:
			w = math.Pow(float64(i+1), -x)
		case kind == "hot" && err == nil && x > 0 && x <= 1:
			w = x
			if i > 0 {
				w = (1 - x) / float64(n-1)
			}
		default:
			return nil, phrases.Error("plan.skew", "given", s)
		}
		total += w
		sum[i] = total
	}
	for i := range sum {
		sum[i] /= total
	}
	return sum, nil
}

// ParseQuantities parses "3", "1..5" or "1,2,5". Each request asks for one of these quantities, all equally likely; one
// that is listed twice is twice as likely.
func ParseQuantities(text string) ([]int64, error) {
	bad := phrases.Error("plan.quantities")
	if from, to, isRange := strings.Cut(text, ".."); isRange {
		first, err1 := strconv.ParseInt(from, 10, 64)
		last, err2 := strconv.ParseInt(to, 10, 64)
		switch {
		case err1 != nil || err2 != nil || first < 1 || last < first:
			return nil, bad
		case last-first >= 1000:
			return nil, phrases.Error("plan.long-range")
		}
		list := make([]int64, 0, last-first+1)
		for q := first; q <= last; q++ {
			list = append(list, q)
		}
		return list, nil
	}
	var list []int64
	for _, part := range strings.Split(text, ",") {
		q, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || q < 1 {
			return nil, bad
		}
		list = append(list, q)
	}
	return list, nil
}

// A mix chooses what each request asks for.
type mix struct {
	seed       uint64
	skus       []string
	weights    []float64
	quantities []int64
}

// newMix returns the mix of a filled plan.
func newMix(p *Plan) *mix {
	weights, _ := p.Skew.Weights(p.SKUs)
	quantities := p.Quantities
	if len(quantities) == 0 {
		quantities = []int64{p.Quantity}
	}
	return &mix{p.Seed, p.Names(), weights, quantities}
}

// pick returns the SKU and quantity of the seq-th request. They depend only on the seed and seq, so that a repeated run
// sends the same requests, whichever worker sends them.
func (m *mix) pick(seq int) (sku string, quantity int64) {
	if len(m.skus) == 1 && len(m.quantities) == 1 {
		return m.skus[0], m.quantities[0]
	}
	random := rand.New(rand.NewPCG(m.seed, uint64(seq)+firstRequest))
	return Pick(random, m.skus, m.weights), m.quantities[random.IntN(len(m.quantities))]
}

// Pick chooses one of names, with the running sums of their probabilities that Skew.Weights returns.
func Pick(random *rand.Rand, names []string, weights []float64) string {
	return names[min(sort.SearchFloat64s(weights, random.Float64()), len(names)-1)]
}

func skuNames(sku string, n int) []string {
	if n <= 1 {
		return []string{sku}
	}
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", sku, i+1)
	}
	return list
}

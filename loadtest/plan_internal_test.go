package loadtest

import (
	"testing"
	"time"
)

// The command says all that makes the run what it was.
func TestTheCommandThatRepeatsAPlan(t *testing.T) {
	wait := 5 * time.Second
	for _, row := range []struct {
		plan Plan
		want string
	}{
		{
			Plan{
				Strategy: "atomic", SKU: "pen", Stock: 5, Quantity: 1, Concurrency: 3, Requests: 7,
				Timeout: time.Second, SKUs: 1,
			},
			"stock load --url here --strategy atomic --sku pen --stock 5 --quantity 1 --concurrency 3 --requests 7 " +
				"--seed 0 --timeout 1s",
		},
		{
			Plan{
				Strategy: "it's", Store: "redis", SKU: "pen", SKUs: 2, Skew: "hot:0.8", Stock: 5,
				Quantities: []int64{1, 2},
				Rate:       Rate{From: 2, To: 3}, Arrivals: Even, MaxInFlight: 9,
				Duration: time.Minute,
				WarmUp:   2 * time.Second, Seed: 44, Wait: &wait, Timeout: time.Second,
				Shared: true,
			},
			`stock load --url here --strategy 'it'\''s' --store redis --sku pen --skus 2 --skew hot:0.8 --stock 5 ` +
				"--quantity 1,2 --rate 2..3 --arrivals even --max-in-flight 9 --duration 1m0s " +
				"--warm-up 2s --seed 44 --wait 5s --timeout 1s --shared",
		},
		{
			Plan{Mapping: "mapping.yaml", Strategy: "atomic", SKU: "pen", Quantity: 2, Concurrency: 1, Requests: 1},
			"stock load --url here --mapping mapping.yaml --sku pen --stock 0 --quantity 2 --concurrency 1 " +
				"--requests 1 --seed 0 --timeout 0s",
		},
	} {
		if got := commandLine("here", &row.plan); got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
}

// A reply may take as long as the request may wait, and replyTime more.
func TestTheTimeoutOfAPlan(t *testing.T) {
	p, err := Plan{Strategy: "atomic", Requests: 1, Wait: new(3 * time.Second)}.filled()
	if err != nil || p.Timeout != 3*time.Second+replyTime {
		t.Errorf("%v, %v", p.Timeout, err)
	}
}

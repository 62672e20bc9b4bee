package loadtest_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// Every impossible plan is refused in words that name a flag.
func TestCheckRefusesImpossiblePlans(t *testing.T) {
	long := time.Minute
	open := loadtest.Rate{From: 10, To: 10}
	for _, row := range []struct {
		plan loadtest.Plan
		want string
	}{
		{loadtest.Plan{}, "requests: must be 1 or more, is 0; or give a duration instead"},
		{loadtest.Plan{Requests: -1}, "requests: must be 1 or more"},
		{
			loadtest.Plan{Requests: 1, Duration: time.Second},
			"duration: cannot stand with --requests: a run ends after 1 requests or after 1s",
		},
		{loadtest.Plan{Duration: -time.Second}, "duration: must not be negative"},
		{loadtest.Plan{Requests: 1, Concurrency: -1}, "concurrency: must be from 1 to 10000"},
		{loadtest.Plan{Requests: 1, Quantity: -1}, "quantity: must be 1 or more"},
		{loadtest.Plan{Requests: 1, Quantities: []int64{1, 0}}, "quantity: must be 1 or more"},
		{loadtest.Plan{Requests: 1, Quantity: 1, Quantities: []int64{1}}, "quantity: is either one number or several"},
		{loadtest.Plan{Requests: 1, Stock: -1}, "stock: must not be negative"},
		{loadtest.Plan{Requests: 1, SKUs: -1}, "skus: must be from 1 to"},
		{loadtest.Plan{Requests: 1, SKUs: 1001}, "skus: must be from 1 to 1000"},
		{loadtest.Plan{Requests: 1, Concurrency: 10_001}, "concurrency: must be from 1 to 10000"},
		{loadtest.Plan{Requests: 1, Skew: "hot:0.8"}, "skew: hot:0.8 needs several SKUs: give --skus too"},
		{
			loadtest.Plan{Requests: 1, SKUs: 2, Skew: "hot"},
			"skew: must be uniform, zipf:EXPONENT such as zipf:1.1, or hot:SHARE such as hot:0.8, is hot",
		},
		{loadtest.Plan{Requests: 1, SKUs: 2, Skew: "hot:1.5"}, "skew: must be"},
		{loadtest.Plan{Requests: 1, SKUs: 2, Skew: "zipf:NaN"}, "skew: must be"},
		{loadtest.Plan{Requests: 1, SKUs: 2, Skew: "zipf:0"}, "skew: must be"},
		{loadtest.Plan{Requests: 1, WarmUp: -1}, "warm-up: must not be negative"},
		{loadtest.Plan{Requests: 1, RampUp: -1}, "ramp-up: must not be negative"},
		{
			loadtest.Plan{Duration: time.Second, RampUp: time.Second},
			"ramp-up: 1s must be shorter than the duration (1s)",
		},
		{loadtest.Plan{Requests: 1, Wait: &long, Timeout: time.Second}, "timeout: 1s must be longer than the wait"},
		{loadtest.Plan{Requests: 1, MaxInFlight: 5}, "max-in-flight: is for the open loop: give --rate too"},
		{loadtest.Plan{Requests: 1, Arrivals: "even"}, "arrivals: are for the open loop: give --rate too"},
		{loadtest.Plan{Requests: 1, Rate: open, Concurrency: 3}, "concurrency: is for the closed loop: with --rate"},
		{
			loadtest.Plan{Requests: 1, Rate: open, RampUp: time.Second},
			"ramp-up: is for the closed loop: with --rate, give the rate as FROM..TO",
		},
		{
			loadtest.Plan{Requests: 1, Rate: loadtest.Rate{From: 1, To: 2}},
			"rate: 1..2 rises or falls over a time: give --duration",
		},
		{loadtest.Plan{Requests: 1, Rate: loadtest.Rate{From: -1, To: 2}}, "rate: must be from 0"},
		{loadtest.Plan{Requests: 1, Think: -1}, "think: must not be negative"},
		{loadtest.Plan{Requests: 1, Think: 1, Mapping: "x"}, "think: is for instances of this service"},
		{loadtest.Plan{Requests: 1, Think: time.Hour, Timeout: time.Minute}, "timeout: 1m0s must be longer"},
		{loadtest.Plan{Requests: 1, Rate: open, Arrivals: "odd"}, `arrivals: must be poisson or even, is "odd"`},
		{loadtest.Plan{Requests: 1, Rate: open, MaxInFlight: -1}, "max-in-flight: must be from 1"},
	} {
		if err := row.plan.Check(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %q", row.plan, err, row.want)
		}
	}
	for _, plan := range []loadtest.Plan{
		{Requests: 1},
		{Duration: time.Second, RampUp: time.Millisecond, SKUs: 3, Skew: "zipf:1.1", Quantities: []int64{1, 2}},
		{Requests: 1, Rate: open, Arrivals: "even"},
		{Duration: time.Second, Rate: loadtest.Rate{To: 5}, SKUs: 3, Skew: "hot:1"},
		{Requests: 1, SKUs: 1000},
		{Requests: 1, Concurrency: 10_000},
	} {
		if err := plan.Check(); err != nil {
			t.Errorf("%+v: %v", plan, err)
		}
	}
}

func TestPlanInJSON(t *testing.T) {
	wait := time.Duration(0)
	for _, want := range []loadtest.Plan{
		{Timeout: time.Second},
		{
			Strategy: "none", SKU: "pen", SKUs: 20, Skew: "zipf:1.1", Stock: 5, Quantities: []int64{1, 2, 5},
			Duration: time.Minute, RampUp: time.Second,
			WarmUp: 2 * time.Second, Think: 5 * time.Millisecond, Concurrency: 3,
			Seed: 7, Wait: &wait, Timeout: 30 * time.Second,
		},
		{Rate: loadtest.Rate{From: 0.5, To: 1000}, Arrivals: loadtest.Even, MaxInFlight: 10, Timeout: time.Second},
	} {
		text, err := json.Marshal(want)
		var got loadtest.Plan
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		`{"timeout":"1s","rate":"0"}`, `{"timeout":"1s","rate":""}`,
		`{"timeout":"1s","ramp_up":"5"}`, `{"timeout":"1s","speed":1}`,
	} {
		if err := json.Unmarshal([]byte(text), new(loadtest.Plan)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]loadtest.Rate{
		"1000": {From: 1000, To: 1000}, "0.5": {From: 0.5, To: 0.5}, "0..10": {To: 10}, "10..0": {From: 10},
		"100..2000": {From: 100, To: 2000},
	} {
		got, err := loadtest.ParseRate(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "0", "0..0", "-1", "1..", "..1", "1..2..3", "fast", "NaN", "Inf", "1e9"} {
		if got, err := loadtest.ParseRate(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestParseQuantities(t *testing.T) {
	for text, want := range map[string][]int64{
		"3": {3}, "1..3": {1, 2, 3}, "4..4": {4}, "1,2,5": {1, 2, 5},
		"1, 1, 9": {1, 1, 9},
	} {
		if got, err := loadtest.ParseQuantities(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "0", "-1", "1.5", "1..", "3..1", "0..3", "1..2000", "1..9223372036854775807",
		"1,,2", "many",
	} {
		if got, err := loadtest.ParseQuantities(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// What a plan is, in words.
func TestAPlanInWords(t *testing.T) {
	second := time.Second
	for _, row := range []struct {
		plan loadtest.Plan
		load string
	}{
		{loadtest.Plan{Concurrency: 30}, "30 workers"},
		{loadtest.Plan{Concurrency: 1, Duration: 2 * second}, "1 worker for 2s"},
		{loadtest.Plan{Concurrency: 3, RampUp: second, Think: second}, "3 workers within 1s, thinking for 1s"},
		{
			loadtest.Plan{Rate: loadtest.Rate{From: 1000, To: 1000}, Arrivals: loadtest.Poisson, WarmUp: second},
			"1000 requests/s, poisson arrivals after 1s of warm-up",
		},
	} {
		if got := row.plan.Load().EN; got != row.load {
			t.Errorf("load %q, want %q", got, row.load)
		}
	}
	for _, row := range []struct {
		plan  loadtest.Plan
		goods string
	}{
		{loadtest.Plan{SKU: "pen"}, "SKU pen"},
		{loadtest.Plan{SKU: "pen", SKUs: 1}, "SKU pen"},
		{loadtest.Plan{SKU: "pen", SKUs: 2}, "2 SKUs pen-1 to pen-2"},
		{loadtest.Plan{SKU: "pen", SKUs: 20, Skew: "zipf:1.1"}, "20 SKUs pen-1 to pen-20, zipf:1.1"},
	} {
		if got := row.plan.Goods().EN; got != row.goods {
			t.Errorf("goods %q, want %q", got, row.goods)
		}
	}
	units := map[string]loadtest.Plan{"1 unit": {Quantity: 1}, "1,2,5 units": {Quantities: []int64{1, 2, 5}}}
	for want, plan := range units {
		if got := plan.Units().EN; got != want {
			t.Errorf("units %q, want %q", got, want)
		}
	}
}

package loadtest_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// Every impossible plan is refused by an error that names a flag.
func TestCheckRefusesImpossiblePlans(t *testing.T) {
	long := time.Minute
	open := loadtest.Rate{From: 10, To: 10}
	for _, row := range []struct {
		plan  loadtest.Plan
		field string
	}{
		{loadtest.Plan{}, "requests"},
		{loadtest.Plan{Requests: -1}, "requests"},
		{loadtest.Plan{Requests: 1, Duration: time.Second}, "duration"},
		{loadtest.Plan{Duration: -time.Second}, "duration"},
		{loadtest.Plan{Requests: 1, Concurrency: -1}, "concurrency"},
		{loadtest.Plan{Requests: 1, Concurrency: 10_001}, "concurrency"},
		{loadtest.Plan{Requests: 1, Quantity: -1}, "quantity"},
		{loadtest.Plan{Requests: 1, Quantities: []int64{1, 0}}, "quantity"},
		{loadtest.Plan{Requests: 1, Quantity: 1, Quantities: []int64{1}}, "quantity"},
		{loadtest.Plan{Requests: 1, Stock: -1}, "stock"},
		{loadtest.Plan{Requests: 1, SKUs: -1}, "skus"},
		{loadtest.Plan{Requests: 1, SKUs: 1001}, "skus"},
		{loadtest.Plan{Requests: 1, Skew: "hot:0.8"}, "skew"},
		{loadtest.Plan{Requests: 1, SKUs: 2, Skew: "hot"}, "skew"},
		{loadtest.Plan{Requests: 1, SKUs: 2, Skew: "hot:1.5"}, "skew"},
		{loadtest.Plan{Requests: 1, SKUs: 2, Skew: "zipf:NaN"}, "skew"},
		{loadtest.Plan{Requests: 1, SKUs: 2, Skew: "zipf:0"}, "skew"},
		{loadtest.Plan{Requests: 1, WarmUp: -1}, "warm-up"},
		{loadtest.Plan{Requests: 1, Wait: &long, Timeout: time.Second}, "timeout"},
		{loadtest.Plan{Requests: 1, Recheck: new(-time.Second)}, "recheck"},
		{loadtest.Plan{Requests: 1, Recheck: new(2 * time.Hour)}, "recheck"},
		{loadtest.Plan{Duration: time.Second, At: []loadtest.Command{{AtMS: 1000, Shell: "true"}}}, "at"},
		{loadtest.Plan{Requests: 1, MaxInFlight: 5}, "max-in-flight"},
		{loadtest.Plan{Requests: 1, Arrivals: "even"}, "arrivals"},
		{loadtest.Plan{Requests: 1, Rate: open, Concurrency: 3}, "concurrency"},
		{loadtest.Plan{Requests: 1, Rate: loadtest.Rate{From: 1, To: 2}}, "rate"},
		{loadtest.Plan{Requests: 1, Rate: loadtest.Rate{From: -1, To: 2}}, "rate"},
		{loadtest.Plan{Requests: 1, Rate: open, Arrivals: "odd"}, "arrivals"},
		{loadtest.Plan{Requests: 1, Rate: open, MaxInFlight: -1}, "max-in-flight"},
		{loadtest.Plan{Requests: 1}, ""},
		{loadtest.Plan{
			Duration: time.Second, SKUs: 3, Skew: "zipf:1.1", Quantities: []int64{1, 2},
		}, ""},
		{loadtest.Plan{Requests: 1, Rate: open, Arrivals: "even"}, ""},
		{loadtest.Plan{Duration: time.Second, Rate: loadtest.Rate{To: 5}, SKUs: 3, Skew: "hot:1"}, ""},
		{loadtest.Plan{Requests: 1, SKUs: 1000, Concurrency: 10_000}, ""},
	} {
		err := row.plan.Check()
		plan, refused := errors.AsType[*loadtest.PlanError](err)
		if refused != (row.field != "") || refused && (plan.Field != row.field || plan.Reason.ZH == "") {
			t.Errorf("%+v: %v, want %q", row.plan, err, row.field)
		}
	}
}

func TestPlanInJSON(t *testing.T) {
	wait := time.Duration(0)
	for _, want := range []loadtest.Plan{
		{Timeout: time.Second},
		{
			Strategy: "none", SKU: "pen", SKUs: 20, Skew: "zipf:1.1", Stock: 5, Quantities: []int64{1, 2, 5},
			Duration: time.Minute, WarmUp: 2 * time.Second, Concurrency: 3,
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
		`{"timeout":"1s","warm_up":"5"}`, `{"timeout":"1s","speed":1}`,
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

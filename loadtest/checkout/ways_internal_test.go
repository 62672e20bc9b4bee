package checkout

import (
	"net/http"
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

// What a complete reply says is what the customer got. A reply that is none of ours is of unknown outcome, with why.
func TestWhatAReplySays(t *testing.T) {
	const done = `{"order_id":"o-1","number":7}`
	for _, row := range []struct {
		name   string
		op     Op
		status int
		body   string
		want   Outcome
		id     string // of the thing; "": there is none
		number uint64
		says   string // of an error
	}{
		{"made", OpPlace, 201, done, Done, "o-1", 0, ""},
		{"read", OpPlace, 200, done, Done, "o-1", 0, ""},
		{"a delivery", OpDeliver, 200, done, Done, "", 7, ""},
		{"accepted for later", OpPlace, 202, done, Unknown, "", 0, "status 202"},
		{"not ours", OpPlace, 200, `{"id":`, Unknown, "", 0, "decode the reply: "},
		{"refused", OpPlace, 409, `{"type":"/problems/sold_out","status":409,"detail":"none"}`, Refused, "", 0, "none"},
	} {
		kind := "application/json"
		if row.want == Refused {
			kind = "application/problem+json"
		}
		header := http.Header{"Content-Type": {kind}, "X-Instance": {"app-1"}, "Idempotent-Replayed": {"true"}}
		r := &Record{Ask: Ask{Op: row.op}}
		r.read(&loadtest.Answer{Status: row.status, Header: header, Body: []byte(row.body)})
		if r.Outcome != row.want || r.Got.id() != row.id || r.Number != row.number || r.Status != row.status ||
			r.Instance != "app-1" || r.Replayed != (row.want == Done) {
			t.Errorf("%s: %+v", row.name, r)
		}
		if !strings.HasPrefix(r.Error, row.says) || row.says == "" && r.Error != "" {
			t.Errorf("%s: error %q, want %q", row.name, r.Error, row.says)
		}
	}
}

// A refusal tells the customer to try again if nothing was decided.
func TestWhatARefusalMeans(t *testing.T) {
	for _, row := range []struct {
		name   string
		status int
		want   Outcome
	}{
		{"sold_out", 409, Refused},
		{"limit", 422, Refused},
		{"overloaded", 503, Busy},
		{"busy", 503, Busy},
		{"database_down", 503, Busy},
		{"issuer_down", 503, Busy},
		{"too_many", 429, Busy},
		{"odd", 499, Refused},
		{"outcome_unknown", 503, Unknown},
	} {
		if got := outcomeOf(&loadtest.Problem{Type: "/problems/" + row.name, Status: row.status}); got != row.want {
			t.Errorf("%d %s: %s, want %s", row.status, row.name, got, row.want)
		}
	}
}

package checkout

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

// Whatever a shop answers, an attempt keeps a bounded part of it. What cannot be kept may have been done.
func TestWhatIsKeptOfAnAttempt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20<<10)
	for _, row := range []struct {
		name, kind, body string
		want             Outcome
	}{
		{"a state", "application/json", `{"order_id":"o","state":"` + long + `","customer":"` + long + `"}`, Done},
		{"an order", "application/json", `{"order_id":"` + long + `"}`, Unknown},
		{"a line", "application/json", `{"order_id":"o","lines":[{"sku":"` + long + `"}]}`, Unknown},
		{"lines", "application/json", `{"order_id":"o","lines":[{}` + strings.Repeat(",{}", maxKept) + `]}`, Unknown},
		{"a number", "application/json", `{"late":` + strings.Repeat("1", 20<<10) + `}`, Unknown},
		{"a refusal", "application/problem+json", `{"type":"/problems/sold_out","detail":"` + long + `"}`, Refused},
	} {
		status := http.StatusOK
		if strings.Contains(row.kind, "problem") {
			status = http.StatusConflict
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", row.kind)
			w.Header().Set("X-Instance", long)
			w.WriteHeader(status)
			fmt.Fprint(w, row.body)
		}))
		c, err := loadtest.NewClient(server.URL, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		r := Send(t.Context(), c, Ask{Op: OpPlace, Customer: "c", Key: "k", Lines: []Line{{"pen", 1}}}, nil, "id")
		text, err := json.Marshal(r)
		if err != nil || r.Outcome != row.want || len(text) > 4<<10 ||
			!strings.HasSuffix(r.Instance, "... (20480 bytes)") {
			t.Errorf("%s: %d bytes, %+v, %v", row.name, len(text), r, err)
		}
		c.Close()
		server.Close()
	}
}

// The books of a shop are bounded, too, and so are its events.
func TestWhatIsKeptOfTheBooks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20<<10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/v1/stock/pen/movements":
			fmt.Fprintf(w, `{"movements":[{"number":1,"reason":%q,"ref":%q}]}`, long, long)
		case "/v1/orders":
			fmt.Fprintf(w, `{"orders":[{"order_id":%q}]}`, long)
		default:
			fmt.Fprintf(w, `{"reservation_id":%q}`, long)
		}
	}))
	defer server.Close()
	c, err := loadtest.NewClient(server.URL, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	movements, err := ReadMovements(t.Context(), c, "pen", 0, 1)
	if err != nil || len(movements) != 1 || len(movements[0].Reason)+len(movements[0].Ref) > 1<<10 {
		t.Errorf("%d movements: %v", len(movements), err)
	}
	_, ofOrders := ReadOrders(t.Context(), c, "c")
	_, ofOne := ReadReservation(t.Context(), c, "c", "r")
	for what, err := range map[string]error{"orders": ofOrders, "a reservation": ofOne} {
		if err == nil || !strings.Contains(err.Error(), "an id has 20480 bytes") || len(err.Error()) > 1<<10 {
			t.Errorf("%s: %v", what, err)
		}
	}
	e, err := decodeEvent(long, []byte(`{"reason":"`+long+`"}`))
	if err != nil || len(e.ID)+len(e.Data.Reason) > 1<<10 {
		t.Errorf("an event of %d bytes: %v", len(e.ID)+len(e.Data.Reason), err)
	}
}

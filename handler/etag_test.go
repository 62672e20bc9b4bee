package handler_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"example.com/stock/service"
)

// tagged returns a service with a stock that has the ETag "2-17-5".
func tagged() *fakeService {
	return &fakeService{stock: func(sku service.SKU) (service.Stock, error) {
		return service.Stock{SKU: sku, Quantity: 5, Epoch: 2, Version: 17}, nil
	}}
}

// put sets the stock as the admin, with more headers.
func put(t *testing.T, url string, header ...string) reply {
	t.Helper()
	header = append(header, "Authorization", "Bearer "+token)
	return ask(t, http.MethodPut, url+"/v1/stock/stock?quantity=5", "", header...)
}

func TestStockHasAnETag(t *testing.T) {
	s := serve(t, tagged(), nil)
	for _, r := range []reply{ask(t, http.MethodGet, s.URL+"/v1/stock/stock", ""), put(t, s.URL)} {
		if got := r.Header.Get("ETag"); r.StatusCode != http.StatusOK || got != `"2-17-5"` {
			t.Errorf("%s: %d, ETag %s", r.Request.Method, r.StatusCode, got)
		}
	}
}

func TestConditionsOfAGet(t *testing.T) {
	s := serve(t, tagged(), nil)
	for _, row := range []struct {
		header, value string
		status        int
	}{
		{"If-None-Match", `"2-17-5"`, http.StatusNotModified},
		{"If-None-Match", `W/"2-17-5"`, http.StatusNotModified},
		{"If-None-Match", `"2-16-5", "2-17-5"`, http.StatusNotModified},
		{"If-None-Match", `*`, http.StatusNotModified},
		{"If-None-Match", `"2-16-5"`, http.StatusOK},
		{"If-Match", `"2-17-5"`, http.StatusOK},
		{"If-Match", `"2-16-5"`, http.StatusPreconditionFailed},
		{"If-Match", `2-17-5`, http.StatusBadRequest},
	} {
		r := ask(t, http.MethodGet, s.URL+"/v1/stock/stock", "", row.header, row.value)
		unchanged := row.status == http.StatusNotModified
		if r.StatusCode != row.status || unchanged && (len(r.body) > 0 || r.Header.Get("ETag") != `"2-17-5"`) {
			t.Errorf("%s: %s: %d %s, want %d", row.header, row.value, r.StatusCode, r.body, row.status)
		}
	}
}

// What PUT asks of the store for every value of the headers.
func TestConditionsOfAPut(t *testing.T) {
	none, all := []string(nil), []string{"*"}
	long := strings.Repeat(`"2-17", `, 500) + `"2-18"`
	for _, row := range []struct {
		value       string
		match, weak []string // as If-Match, and as If-None-Match; nil: refused
	}{
		{`*`, all, all},
		{"\t* ", all, all},
		{`"2-17"`, []string{"2-17"}, []string{"2-17"}},
		{`W/"2-17"`, []string{}, []string{"2-17"}},
		{`W/"2-16","2-17"`, []string{"2-17"}, []string{"2-16", "2-17"}},
		{"\"2-17\" ,\t\"2-18\"", []string{"2-17", "2-18"}, []string{"2-17", "2-18"}},
		{`,, "2-17",, ,"2-18",`, []string{"2-17", "2-18"}, []string{"2-17", "2-18"}},
		{`"*"`, []string{}, []string{}}, // a tag, not a star
		{`"xyzzy", "", "a,b", "2-17"`, []string{"2-17"}, []string{"2-17"}},
		{`"-1-5", "1-", "123456789012345678901-1", "2_17"`, []string{}, []string{}},
		{"\"\xfc\x80\"", []string{}, []string{}},
		{``, none, none},
		{` , `, none, none},
		{`2-17`, none, none},
		{`'2-17'`, none, none},
		{`"2-17`, none, none},
		{`2-17"`, none, none},
		{`"2-17" "2-18"`, none, none},
		{`"2-17"x`, none, none},
		{`"2-17"; q=1`, none, none},
		{`*, "2-17"`, none, none},
		{`"2-17", *`, none, none},
		{`**`, none, none},
		{`w/"2-17"`, none, none},
		{`W/ "2-17"`, none, none},
		{`W/*`, none, none},
		{`"2 17"`, none, none},
		{"\"2\t17\"", none, none},
	} {
		for header, want := range map[string][]string{"If-Match": row.match, "If-None-Match": row.weak} {
			d := tagged()
			r := put(t, serve(t, d, nil).URL, header, row.value)
			got := d.condition.Match
			if header == "If-None-Match" {
				got = d.condition.NoneMatch
			}
			if want == nil {
				wantProblem(t, r, http.StatusBadRequest, "invalid")
				if r.problem.Field != header || !d.condition.None() {
					t.Errorf("%s: %q: field %q, %+v", header, row.value, r.problem.Field, d.condition)
				}
				continue
			}
			if r.StatusCode != http.StatusOK || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q: %d, %q, want %q", header, row.value, r.StatusCode, got, want)
			}
		}
	}
	d := tagged()
	r := put(t, serve(t, d, nil).URL, "If-Match", long)
	if r.StatusCode != http.StatusOK || len(d.condition.Match) != 501 {
		t.Errorf("%d of 501 tags, status %d", len(d.condition.Match), r.StatusCode)
	}
	if put(t, serve(t, d, nil).URL); !d.condition.None() {
		t.Errorf("without the headers: %+v", d.condition)
	}
}

// Both headers at once, and each on several lines, are one condition.
func TestConditionsOnSeveralLines(t *testing.T) {
	d := tagged()
	s := serve(t, d, nil)
	url := s.URL + "/v1/stock/stock?quantity=5"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Authorization"] = []string{"Bearer " + token}
	req.Header["If-Match"] = []string{`"2-17"`, `"2-18"`}
	req.Header["If-None-Match"] = []string{`"2-19"`}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want := service.Condition{Match: []string{"2-17", "2-18"}, NoneMatch: []string{"2-19"}}
	if resp.StatusCode != http.StatusOK || !reflect.DeepEqual(d.condition, want) {
		t.Errorf("%d, %+v, want %+v", resp.StatusCode, d.condition, want)
	}
}

package order

import (
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/service"
)

func TestCartsAreBounded(t *testing.T) {
	_, s := stocked(t)
	many := make([]Line, MaxLines+1)
	for i := range many {
		many[i] = Line{"a", 1}
	}
	for name, lines := range map[string][]Line{
		"none": {}, "too many": many, "zero": {{"a", 0}}, "negative": {{"a", -1}}, "large": {{"a", MaxQuantity + 1}},
		"large together": {{"a", MaxQuantity}, {"a", 1}},
	} {
		_, _, err := s.Place(t.Context(), "", "ann", lines)
		if _, ok := errors.AsType[*service.InvalidError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.Place(t.Context(), "", "ann", many[1:]); !errors.Is(err, ErrShort) {
		t.Errorf("%d lines: %v, want sold out", MaxLines, err)
	}
}

func TestParse(t *testing.T) {
	for _, in := range []string{"", "1", "999ms", "24h1ms", "-5s", "x", "NaNs"} {
		if d, err := ParseTTL(in); err == nil {
			t.Errorf("ParseTTL(%q) = %v", in, d)
		}
	}
	for in, want := range map[string]time.Duration{"1s": time.Second, "24h": MaxTTL, "1.5s": 1500 * time.Millisecond} {
		if d, err := ParseTTL(in); err != nil || d != want {
			t.Errorf("ParseTTL(%q) = %v, %v", in, d, err)
		}
	}
	for _, in := range []string{"", "a b", "..", strings.Repeat("x", MaxCustomer+1), "ü"} {
		_, err := ParseCustomer(in)
		if invalid, ok := errors.AsType[*service.InvalidError](err); !ok || invalid.Field != "customer" {
			t.Errorf("ParseCustomer(%q): %v", in, err)
		}
	}
	for _, in := range []string{"a", "Ann-1", strings.Repeat("x", MaxCustomer)} {
		if customer, err := ParseCustomer(in); err != nil || customer != in {
			t.Errorf("ParseCustomer(%q) = %q, %v", in, customer, err)
		}
	}
	for _, in := range []string{"a\nb", "\xff", strings.Repeat("x", MaxReason+1)} {
		if _, err := ParseReason(in); err == nil {
			t.Errorf("ParseReason(%q) is good", in)
		}
	}
}

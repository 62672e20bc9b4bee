package service_test

import (
	"testing"

	"example.com/stock/service"
)

func TestConditionHolds(t *testing.T) {
	none, any := []string(nil), []string{service.AnyTag}
	for _, row := range []struct {
		match, noneMatch []string
		tag              string
		holds            bool
	}{
		{none, none, "", true},
		{none, none, "1-1", true},
		{[]string{}, none, "1-1", false},
		{[]string{}, none, "", false},
		{[]string{"1-1"}, none, "1-1", true},
		{[]string{"1-2", "1-1"}, none, "1-1", true},
		{[]string{"1-2"}, none, "1-1", false},
		{[]string{""}, none, "", false},
		{any, none, "1-1", true},
		{any, none, "", false},
		{none, any, "1-1", false},
		{none, any, "", true},
		{none, []string{"1-1"}, "1-1", false},
		{none, []string{"1-1"}, "1-2", true},
		{[]string{"1-1"}, []string{"1-1"}, "1-1", false},
	} {
		c := service.Condition{Match: row.match, NoneMatch: row.noneMatch}
		if c.Holds(row.tag) != row.holds {
			t.Errorf("%q of %+v: %t, want %t", row.tag, c, !row.holds, row.holds)
		}
	}
}

package service_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

func TestParseSKU(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"stock", "a", "0", "A-1", "a.b_c:d-e", "...", "a.", "-", ":", "_",
		strings.Repeat("x", service.MaxSKU), "ABCXYZabcxyz0189._:-",
	} {
		if sku, err := service.ParseSKU(good); err != nil || string(sku) != good {
			t.Errorf("ParseSKU(%q) = %q, %v; want it as it is", good, sku, err)
		}
	}
	for bad, why := range map[string]string{
		".":                                     "path (step=.)",
		"..":                                    "path (step=..)",
		"":                                      "empty",
		strings.Repeat("x", service.MaxSKU+1):   "characters (most=64, has=65)",
		"a b":                                   "alphabet (at=2)",
		" a":                                    "alphabet (at=1)",
		"a{b}":                                  "alphabet (at=2)", // a hash tag of Redis Cluster
		"a/b":                                   "alphabet (at=2)", // a path of ZooKeeper
		"naïve":                                 "alphabet (at=3)",
		strings.Repeat("é", service.MaxSKU/2+1): "characters (most=64, has=66)",
	} {
		sku, err := service.ParseSKU(bad)
		var invalid *service.InvalidError
		if sku != "" || !errors.As(err, &invalid) || invalid.Field != "sku" ||
			driver.Coded(invalid.Reason, invalid.Values) != why {
			t.Errorf("ParseSKU(%q) = %q, %v; want an InvalidError of sku with %q", bad, sku, err, why)
		}
	}
}

// The same rule, said by another.
var goodSKU = regexp.MustCompile(`\A[A-Za-z0-9._:\-]{1,64}\z`)

func FuzzParseSKU(f *testing.F) {
	for _, seed := range []string{
		"stock", "", "a{b}", "a/b", "a\n", "\xff", "é", "A-1.b_c:d", "a\x00", "a@", "a[", "a`", "a;", "库存",
		strings.Repeat("x", 64), strings.Repeat("x", 65),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sku, err := service.ParseSKU(s)
		if (err == nil) != (goodSKU.MatchString(s) && s != "." && s != "..") {
			t.Fatalf("ParseSKU(%q) = %v, the regular expression says %t", s, err, goodSKU.MatchString(s))
		}
		if err == nil && string(sku) != s {
			t.Fatalf("ParseSKU(%q) = %q", s, sku)
		}
		if err != nil && regexp.MustCompile(`[^ -~]`).MatchString(err.Error()) {
			t.Fatalf("the error quotes what was sent: %q", err)
		}
	})
}

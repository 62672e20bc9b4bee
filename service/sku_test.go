package service_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

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
		".":                                     "path",
		"..":                                    "path",
		"":                                      "must not be empty",
		strings.Repeat("x", service.MaxSKU+1):   "must have at most 64 characters, has 65",
		"a b":                                   "character 2",
		" a":                                    "character 1",
		"a\n":                                   "character 2",
		"a{b}":                                  "character 2", // a hash tag of Redis Cluster
		"a/b":                                   "character 2", // a path of ZooKeeper
		"a\x00":                                 "character 2",
		"a%":                                    "character 2",
		"a'":                                    "character 2",
		"naïve":                                 "character 3",
		"库存":                                    "character 1",
		"a\xff":                                 "character 2", // no UTF-8
		"a@":                                    "character 2", // the neighbours of the ranges
		"a[":                                    "character 2",
		"a`":                                    "character 2",
		"a;":                                    "character 2",
		strings.Repeat("é", service.MaxSKU/2+1): "at most 64",
	} {
		sku, err := service.ParseSKU(bad)
		var invalid *service.InvalidError
		if sku != "" || !errors.As(err, &invalid) || invalid.Field != "sku" || !strings.Contains(invalid.Reason, why) {
			t.Errorf("ParseSKU(%q) = %q, %v; want an InvalidError of sku with %q", bad, sku, err, why)
		}
	}
}

// The same rule, said by another.
var goodSKU = regexp.MustCompile(`\A[A-Za-z0-9._:\-]{1,64}\z`)

func FuzzParseSKU(f *testing.F) {
	for _, seed := range []string{
		"stock", "", "a{b}", "a/b", "a\n", "\xff", "é", "A-1.b_c:d",
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

package service_test

import (
	"errors"
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

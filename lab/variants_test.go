package lab

import "testing"

// What a case is called in English it is called in Chinese; and nothing is translated that no case is called.
func TestEveryVariantIsInChinese(t *testing.T) {
	left := variants()
	for _, s := range All() {
		for _, c := range s.Cases {
			if _, ok := variants()[c.Variant]; !ok && c.Variant != "" {
				t.Errorf("%s: not in variants: %q", s.Name, c.Variant)
			}
			delete(left, c.Variant)
		}
	}
	for variant := range left {
		t.Errorf("no case is called %q", variant)
	}
	c := Case{Strategy: "redis-setnx", Store: "mysql", Variant: told}
	if got := c.Said(); got != (Text{"redis-setnx on mysql, heeds the loss", "redis-setnx（mysql），理会锁的丢失"}) {
		t.Errorf("%q", got)
	}
}

package service

import (
	"strings"
)

// MaxSKU is the longest SKU, in bytes.
const MaxSKU = 64

// A SKU names one sort of unit in stock. Only ParseSKU makes one from outside: letters, digits, ". _ : -", 1 to 64 of
// them, but not "." or "..", which clients and proxies take out of a path. The set leaves out braces (Redis Cluster
// hash tags), slashes (ZooKeeper paths) and blanks, so that a SKU can be a key anywhere.
type SKU string

// ParseSKU checks s. The error is an InvalidError for the field "sku".
func ParseSKU(s string) (SKU, error) {
	switch {
	case s == "":
		return "", Invalid("sku", "empty")
	case len(s) > MaxSKU:
		return "", Invalid("sku", "characters", "most", MaxSKU, "has", len(s))
	case s == "." || s == "..":
		return "", Invalid("sku", "path", "step", s)
	}
	if i := strings.IndexFunc(s, foreign); i >= 0 {
		return "", Invalid("sku", "alphabet", "at", i+1)
	}
	return SKU(s), nil
}

func foreign(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-", r))
}

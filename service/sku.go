package service

import (
	"strings"
)

// MaxSKU is the longest SKU, in bytes.
const MaxSKU = 64

// A SKU names one kind of unit in stock: 1 to 64 letters, digits and ". _ : -", but not "." or "..", which clients
// and proxies remove from a path. Braces (hash tags of Redis Cluster), slashes (paths of ZooKeeper) and blanks are
// not allowed, so a SKU can be used as a key in any store. Only ParseSKU makes a SKU from input.
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

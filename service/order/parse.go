package order

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/stock/service"
)

// This file checks the input of clients. Every error is an InvalidError, which names the field and its limit.

// ParseCustomer checks the name of a customer: 1 to MaxCustomer of the characters that a SKU may have. It does not
// authenticate the customer; a gateway in front of this service must do that.
func ParseCustomer(s string) (string, error) {
	_, err := service.ParseSKU(s)
	if invalid, ok := errors.AsType[*service.InvalidError](err); ok {
		return "", service.Invalid("customer", invalid.Reason, invalid.Values...)
	}
	return s, nil
}

// ParseTTL parses the requested duration of a reservation.
func ParseTTL(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < MinTTL || d > MaxTTL {
		return 0, service.Invalid("ttl", "ttl", "least", fmt.Sprintf("%.0fs", MinTTL.Seconds()),
			"most", fmt.Sprintf("%.0fh", MaxTTL.Hours()), "example", "90s or 15m")
	}
	return d.Truncate(time.Millisecond), nil
}

// ParseReason checks the reason that a person gave for a change of the stock: one line of at most MaxReason bytes.
func ParseReason(s string) (string, error) {
	if len(s) > MaxReason {
		return "", service.Invalid("reason", "most-bytes", "most", MaxReason, "has", len(s))
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return "", service.Invalid("reason", "line")
	}
	return s, nil
}

// MaxPolicy is the largest limit per customer.
const MaxPolicy = service.MaxStock

func between(field string, n, least, most int64) error {
	if n < least || n > most {
		return service.Invalid(field, "whole", "least", least, "most", most)
	}
	return nil
}

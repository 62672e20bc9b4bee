package driver

import (
	"fmt"
	"strings"

	"example.com/stock/lock"
)

// A DownError is a [lock.ErrDown] that is safe to show to clients. Reason is the code of a text in the language files,
// and Values fill in that text. The text says how to repair the server, if the repair is known.
type DownError struct {
	Server string // redis, zookeeper or mysql
	Reason string
	Values []any // pairs of a name in the text and its value
	Full   bool  // the server has no room for more data, but can be read
	Denied bool  // the server refuses it until a person grants a right or changes a setting
}

// NewDown returns a DownError. values alternates between the names in the text of reason and their values.
func NewDown(server, reason string, values ...any) *DownError {
	return &DownError{Server: server, Reason: reason, Values: values}
}

func (e *DownError) Error() string { return e.Server + " is down: " + Coded(e.Reason, e.Values) }

// Coded formats a code and its values for a log: code (name=value, name=value).
func Coded(code string, values []any) string {
	var b strings.Builder
	b.WriteString(code)
	for i, separator := 0, " ("; i+1 < len(values); i, separator = i+2, ", " {
		fmt.Fprintf(&b, "%s%v=%v", separator, values[i], values[i+1])
	}
	if len(values) > 1 {
		b.WriteByte(')')
	}
	return b.String()
}

func (e *DownError) Is(target error) bool {
	return target == lock.ErrDown || target == lock.ErrFull && e.Full || target == lock.ErrDenied && e.Denied
}

// Down returns an error that matches ErrDown and err, the error of a server's client. doing describes what was tried.
func Down(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, lock.ErrDown, err)
}

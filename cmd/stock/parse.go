package main

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// parse makes a value of the setting's type of what a file, a variable or a flag has for it. It is strict where viper is not: a
// number is no duration (nobody means nanoseconds), 1.5 is no 1, and a number is no text, because YAML reads 0123 as 83.
func (s setting) parse(raw any) (value any, ok bool) {
	text, isText := raw.(string)
	switch s.value.(type) {
	case string:
		return text, isText
	case bool:
		if isText && text != "" {
			b, err := strconv.ParseBool(text)
			return b, err == nil
		}
		b, isBool := raw.(bool)
		return b, isBool || isText // empty: false
	case int:
		n, ok := whole(raw)
		return int(n), ok
	case int64:
		return whole(raw)
	case time.Duration:
		if isText {
			d, err := time.ParseDuration(text)
			return d, err == nil
		}
		d, isDuration := raw.(time.Duration)
		return d, isDuration
	case []string:
		return list(raw)
	}
	return nil, false
}

// sort says what parse takes.
func (s setting) sort() string {
	switch s.value.(type) {
	case bool:
		return "true or false"
	case int, int64:
		return "a whole number"
	case time.Duration:
		return "a duration with its unit, such as 500ms or 10s"
	case []string:
		return "a list, or text with commas"
	default:
		return "text (in quotes, if it looks like something else)"
	}
}

func whole(raw any) (int64, bool) {
	switch n := raw.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64: // JSON has no other numbers
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// list leaves out blanks around commas, and what is empty: "" is a list of none.
func list(raw any) ([]string, bool) {
	var items []string
	switch l := raw.(type) {
	case string:
		items = strings.Split(l, ",")
	case []string:
		items = l
	case []any:
		for _, item := range l {
			text, isText := item.(string)
			if !isText {
				return nil, false
			}
			items = append(items, text)
		}
	default:
		return nil, false
	}
	kept := []string{}
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			kept = append(kept, item)
		}
	}
	return kept, true
}

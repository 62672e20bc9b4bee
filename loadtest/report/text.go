package report

import (
	"fmt"
	"strings"

	"example.com/stock/loadtest"
)

// millis formats milliseconds with three digits and the unit: 0.12 ms, 12.3 ms, 1.23 s.
func millis(ms float64) string {
	text := loadtest.Millis(ms)
	unit := strings.IndexAny(text, "ms")
	return text[:unit] + " " + text[unit:]
}

// count returns n with its noun, and commas between thousands: "1 unit", "12,000 units".
func count[N int | int64](n N, noun string) string {
	return thousands(int64(n)) + " " + plural(n, noun)
}

// plural returns noun, in the plural unless n is 1.
func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return noun
	}
	if strings.HasSuffix(noun, "ch") {
		return noun + "es"
	}
	return noun + "s"
}

// thousands separates groups of three digits from 10,000 on.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	if n < 10_000 && n > -10_000 {
		return text
	}
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// words returns a name of the JSON in words: "sold out" for "sold_out".
func words[S ~string](name S) string { return strings.ReplaceAll(string(name), "_", " ") }

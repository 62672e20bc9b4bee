package report

import (
	"fmt"
	"math"
	"strings"
)

// millis writes three digits and the unit: 0.12 ms, 12.3 ms, 1.23 s.
func millis(ms float64) string {
	switch a := math.Abs(ms); {
	case a < 9.995:
		return fmt.Sprintf("%.2f ms", ms)
	case a < 99.95:
		return fmt.Sprintf("%.1f ms", ms)
	case a < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case a < 9995:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// count is n with its noun, and thin spaces between thousands: "1 unit", "12 000 units".
func count[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return thousands(int64(n)) + " " + noun
}

// thousands sets digits in groups of three from 10,000 on.
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

// words is a name of the JSON as people read it: "sold out" of "sold_out".
func words[S ~string](name S) string { return strings.ReplaceAll(string(name), "_", " ") }

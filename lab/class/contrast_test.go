package class

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminances returns the relative luminance of each colour that a part of theme.css names, as WCAG 2.2 defines it.
func luminances(t *testing.T, css string) map[string]float64 {
	t.Helper()
	of := map[string]float64{}
	for _, m := range regexp.MustCompile(`--([a-z-]+): #(..)(..)(..);`).FindAllStringSubmatch(css, -1) {
		for channel, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(m[2+channel], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			light := float64(n) / 255
			if light <= 0.04045 {
				light /= 12.92
			} else {
				light = math.Pow((light+0.055)/1.055, 2.4)
			}
			of[m[1]] += weight * light
		}
	}
	return of
}

// Text stands out from what it is on by 4.5, and what is no text but has a meaning by 3 (WCAG 2.2, 1.4.3 and 1.4.11),
// in both themes.
func TestContrast(t *testing.T) {
	css, err := pageFile("theme.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, both := strings.Cut(string(css), `:root[data-theme="dark"] {`)
	if !both {
		t.Fatal("theme.css has no dark theme")
	}
	for theme, part := range map[string]string{"light": light, "dark": dark} {
		of := luminances(t, part)
		for _, row := range []struct {
			text, on string
			least    float64
		}{
			{"ink", "paper", 7},
			{"ink", "panel", 7},
			{"ink", "blue-fill", 7},
			{"ink", "amber-fill", 7},
			{"ink", "green-fill", 7},
			{"ink", "red-fill", 7},
			{"dim", "paper", 4.5},
			{"dim", "panel", 4.5},
			{"dim", "blue-fill", 4.5},
			{"paper", "blue", 4.5},
			{"red", "paper", 4.5},
			{"red", "panel", 4.5},
			{"red", "red-fill", 4.5},
			{"green", "paper", 4.5},
			{"amber", "paper", 4.5},
			{"amber", "amber-fill", 4.5},
			{"edge", "paper", 3},
			{"edge", "panel", 3},
			{"blue", "paper", 3},
			{"blue", "blue-fill", 3},
			{"bar-edge", "paper", 3},
		} {
			a, named := of[row.text]
			b, too := of[row.on]
			if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); !named || !too || got < row.least {
				t.Errorf("%s: %s on %s has %.2f, want %.1f", theme, row.text, row.on, got, row.least)
			}
		}
	}
}

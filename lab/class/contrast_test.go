package class

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A palette has the colours of a theme by name.
type palette map[string][3]float64

// palettes reads the colours of both themes from theme.css. The dark theme replaces those of the light one.
func palettes(t *testing.T) map[string]palette {
	t.Helper()
	css, err := pageFile("theme.css")
	if err != nil {
		t.Fatal(err)
	}
	themes := map[string]palette{}
	colour := regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{3,6});`)
	for name, head := range map[string]string{"light": ":root {", "dark": `:root[data-theme="dark"] {`} {
		_, rest, ok := strings.Cut(string(css), head)
		if !ok {
			t.Fatalf("theme.css has no %s", head)
		}
		block, _, _ := strings.Cut(rest, "\n}")
		themes[name] = palette{}
		for _, m := range colour.FindAllStringSubmatch(block, -1) {
			themes[name][m[1]] = linear(t, m[2])
		}
	}
	return themes
}

// linear returns the light of a colour's channels, as WCAG 2.2 defines it.
func linear(t *testing.T, digits string) (rgb [3]float64) {
	t.Helper()
	if len(digits) == 3 {
		digits = strings.Repeat(digits[:1], 2) + strings.Repeat(digits[1:2], 2) + strings.Repeat(digits[2:], 2)
	}
	for i := range rgb {
		n, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if rgb[i] = float64(n) / 255; rgb[i] <= 0.04045 {
			rgb[i] /= 12.92
		} else {
			rgb[i] = math.Pow((rgb[i]+0.055)/1.055, 2.4)
		}
	}
	return rgb
}

func (p palette) contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light := func(name string) float64 {
		c, ok := p[name]
		if !ok {
			t.Fatalf("there is no colour %s", name)
		}
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	x, y := light(a), light(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Text stands out from what it is on by 4.5, and what is no text but has a meaning by 3 (WCAG 2.2, 1.4.3 and 1.4.11),
// in both themes.
func TestContrast(t *testing.T) {
	for theme, colours := range palettes(t) {
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
			if got := colours.contrast(t, row.text, row.on); got < row.least {
				t.Errorf("%s: %s on %s has %.2f, want %.1f", theme, row.text, row.on, got, row.least)
			}
		}
	}
}

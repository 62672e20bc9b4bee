package report

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"example.com/stock/loadtest"
)

// Formats of pictures.
const (
	SVG = "svg"
	PNG = "png"
)

// Pixels of a picture for slides; 16:9 or wider.
const slideWidth, slideHeight = 960, 400

// WritePictures writes the pictures of each run into a folder, which it makes: stock, timeline, percentiles, histogram, and of several runs a comparison.
// It returns the names of the files.
func WritePictures(dir, format string, runs []*loadtest.Result) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	write := func(name string, picture []byte) error {
		path := filepath.Join(dir, name+"."+format)
		names = append(names, path)
		return os.WriteFile(path, picture, 0o644)
	}
	for i, r := range runs {
		name := fileName(r)
		if len(runs) > 1 {
			name = fmt.Sprintf("%02d-%s", i+1, name)
		}
		for kind, picture := range pictures(r, format) {
			if err := write(name+"-"+kind, picture); err != nil {
				return names, err
			}
		}
	}
	if len(runs) > 1 {
		c := compareChart(runs, inked(format), 13)
		return names, write("comparison", c.encode(format, slideWidth, compareHeight(len(runs))))
	}
	return names, nil
}

func fileName(r *loadtest.Result) string {
	return regexp.MustCompile(`[^A-Za-z0-9.-]+`).ReplaceAllString(strings.TrimSuffix(r.Plan.Strategy+"-"+r.Plan.Store, "-"), "_")
}

func inked(format string) func(ink) color.Color {
	if format == SVG {
		return marked
	}
	return printed
}

// pictures yields the pictures of a run by kind.
func pictures(r *loadtest.Result, format string) func(func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		t := lay(r, limits{holdsAlone / 2, lanesAlone / 2})
		if c := follow(r, t.story); len(c.truth) > 1 && !yield("stock", stockChart(c, inked(format), 13).encode(format, slideWidth, slideHeight)) {
			return
		}
		if len(t.bars) > 0 && !yield("timeline", timelineChart(t, inked(format), 13).encode(format, slideWidth, max(float64(t.height()), slideHeight))) {
			return
		}
		l := latenciesOf(r)
		if len(l) == 0 {
			return
		}
		_ = yield("percentiles", percentileChart(l, inked(format), 13).encode(format, slideWidth, slideHeight)) &&
			yield("histogram", histogramChart(l, l.histogram(), inked(format), 13, slideWidth).encode(format, slideWidth, slideHeight))
	}
}

// encode draws c as a file of its own.
func (c *chart) encode(format string, width, height float64) []byte {
	if format == PNG {
		return c.toPNG(width, height)
	}
	body := c.toSVG(width, height, "", "", nil)
	patterns := read("patterns.svg")
	from, to := strings.Index(patterns, "<defs>"), strings.Index(patterns, "</svg>")
	opening := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" `, width, height)
	inner := strings.Index(body, ">") + 1
	return []byte(opening + strings.TrimPrefix(body[:inner], "<svg ") + "<style>" + read("page.css") + "</style>" + patterns[from:to] + body[inner:])
}

package loadtest

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A unit is what a figure is counted in.
type unit int

const (
	counted unit = iota
	timed        // in milliseconds
	rated        // per second
	decided      // 1 is true, 0 is false
)

func (u unit) parse(text string) (float64, error) {
	switch u {
	case timed:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q is not a time with its unit, such as 50ms or 1.5s", text)
		}
		return float64(d) / float64(time.Millisecond), nil
	case decided:
		if text == "true" {
			return 1, nil
		}
		if text == "false" {
			return 0, nil
		}
		return 0, fmt.Errorf("%q is not true or false", text)
	case rated:
		text = strings.TrimSuffix(text, "/s")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, errors.New(strconv.Quote(text) + " is not a number")
	}
	return f, nil
}

// exact is what parse reads.
func (u unit) exact(value float64) string {
	switch u {
	case timed:
		return time.Duration(math.Round(value * float64(time.Millisecond))).String()
	case decided:
		return strconv.FormatBool(value != 0)
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

func (u unit) show(value float64) string {
	switch u {
	case timed:
		return millis(value)
	case rated:
		return fmt.Sprintf("%.1f/s", value)
	case decided:
		return strconv.FormatBool(value != 0)
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}

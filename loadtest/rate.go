package loadtest

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// maxRate bounds the requests per second of an open loop: no computer sends more from one process.
const maxRate = 1_000_000

// A Rate is how many requests are due per second: From at the start of a run, To at its end, and in between on a straight line.
type Rate struct{ From, To float64 }

// ParseRate reads "1000", or "100..1000" for a rate that rises from 100 to 1000.
func ParseRate(text string) (Rate, error) {
	from, to, ramp := strings.Cut(text, "..")
	if !ramp {
		to = from
	}
	var r Rate
	var err error
	if r.From, err = perSecond(from); err == nil {
		r.To, err = perSecond(to)
	}
	if err == nil && r.From == 0 && r.To == 0 {
		err = errors.New("a rate of 0 sends nothing")
	}
	if err != nil {
		return Rate{}, err
	}
	return r, nil
}

func perSecond(text string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > maxRate {
		return 0, errors.New(`must be requests per second, such as 1000, or 100..1000 to rise from 100 to 1000`)
	}
	return f, nil
}

// String is what ParseRate reads.
func (r Rate) String() string {
	from, to := strconv.FormatFloat(r.From, 'f', -1, 64), strconv.FormatFloat(r.To, 'f', -1, 64)
	if from == to {
		return from
	}
	return from + ".." + to
}

// MarshalText is String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

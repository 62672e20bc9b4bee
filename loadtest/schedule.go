package loadtest

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// maxRate limits the requests per second of an open loop. No process can send more.
const maxRate = 1_000_000

// A Rate is the number of requests due per second: From at the start of a run, To at its end, and linear in between.
type Rate struct{ From, To float64 }

// ParseRate parses "1000", or "100..1000" for a rate that rises from 100 to 1000.
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
		err = phrases.Error("plan.rate-zero")
	}
	if err != nil {
		return Rate{}, err
	}
	return r, nil
}

func perSecond(text string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > maxRate {
		return 0, phrases.Error("plan.rate-form")
	}
	return f, nil
}

// String formats r in the form that ParseRate reads.
func (r Rate) String() string {
	from, to := strconv.FormatFloat(r.From, 'f', -1, 64), strconv.FormatFloat(r.To, 'f', -1, 64)
	if from == to {
		return from
	}
	return from + ".." + to
}

// MarshalText writes what String returns.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what ParseRate reads.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	if *r, err = ParseRate(string(text)); err != nil {
		err = fmt.Errorf("rate: %w", err)
	}
	return err
}

// Arrivals is the spacing of the requests of an open loop.
type Arrivals string

// The spacings. Poisson, the default, models independent customers, some of whom come at the same moment, which a race
// needs. Even requests never compete if the service takes less time than their distance.
const (
	Poisson Arrivals = "poisson"
	Even    Arrivals = "even"
)

// schedule yields the due time of each request, relative to the start, in order. It ends after p.Requests requests, or
// before p.Duration.
//
// The n-th request is due when the integral of the rate reaches its mark: n - 1/2 if they are even; if Poisson, the
// sum of n exponential steps of mean 1. (That is the time change of an inhomogeneous Poisson process: Çinlar,
// Introduction to Stochastic Processes, 1975.)
func (p *Plan) schedule() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		random := rand.New(rand.NewPCG(p.Seed, arrivalStream))
		mark := -0.5
		if p.Arrivals != Even {
			mark = 0
		}
		for n := 1; p.Requests == 0 || n <= p.Requests; n++ {
			if p.Arrivals == Even {
				mark++
			} else {
				mark += random.ExpFloat64()
			}
			due := p.Rate.reaches(mark, p.Duration)
			if p.Duration > 0 && due >= p.Duration || !yield(due) {
				return
			}
		}
	}
}

// reaches returns the time at which mark requests are due in all. duration is the time over which a rate rises or
// falls.
func (r Rate) reaches(mark float64, duration time.Duration) time.Duration {
	seconds := mark / r.From
	if r.From != r.To {
		// from*t + slope*t*t/2 = mark, in the form that does not cancel out for a small slope.
		slope := (r.To - r.From) / duration.Seconds()
		under := r.From*r.From + 2*slope*mark
		if under < 0 {
			return math.MaxInt64 // a falling rate reaches 0 earlier
		}
		seconds = 2 * mark / (r.From + math.Sqrt(under))
	}
	if seconds >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds * float64(time.Second))
}

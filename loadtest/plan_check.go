package loadtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"
)

// maxSeed keeps seeds short on a command line, and whole in JSON readers that know only floating point.
const maxSeed = 1_000_000_000

// filled is p with its defaults, or a PlanError.
func (p Plan) filled() (Plan, error) {
	if len(p.Quantities) == 0 {
		p.Quantity = cmp.Or(p.Quantity, 1)
	}
	p.SKUs = cmp.Or(p.SKUs, 1)
	p.SKU = cmp.Or(p.SKU, "load-"+p.Strategy)
	p.Seed = cmp.Or(p.Seed, NewSeed())
	var wait time.Duration
	if p.Wait != nil {
		wait = *p.Wait
	}
	p.Timeout = cmp.Or(p.Timeout, wait+patience)
	var err error
	if p.Open() {
		p.MaxInFlight, p.Arrivals = cmp.Or(p.MaxInFlight, inFlight), cmp.Or(p.Arrivals, Poisson)
		err = p.checkOpen()
	} else {
		p.Concurrency = cmp.Or(p.Concurrency, 1)
		err = p.checkClosed()
	}
	if err = cmp.Or(p.check(wait), err); err != nil {
		return p, err
	}
	if p.Requests > 0 && !p.Open() {
		p.Concurrency = min(p.Concurrency, p.Requests)
	}
	return p, nil
}

// NewSeed is a seed by chance.
func NewSeed() uint64 { return 1 + rand.Uint64N(maxSeed) }

func wrong(field, format string, args ...any) error {
	return &PlanError{field, fmt.Sprintf(format, args...)}
}

// check refuses what is wrong in either model.
func (p *Plan) check(wait time.Duration) error {
	switch {
	case p.Strategy == "":
		return wrong("strategy", "is missing")
	case len(p.Quantities) > 0 && p.Quantity != 0:
		return wrong("quantity", "is either one number or several, not both")
	case len(p.Quantities) == 0 && p.Quantity < 1:
		return wrong("quantity", "must be 1 or more, is %d", p.Quantity)
	case p.SKUs < 1 || p.SKUs > maxSKUs:
		return wrong("skus", "must be from 1 to %d, is %d", maxSKUs, p.SKUs)
	case p.Stock < 0:
		return wrong("stock", "must not be negative, is %d", p.Stock)
	case p.Requests < 0 || p.Requests == 0 && p.Duration == 0:
		return wrong("requests", "must be 1 or more, is %d; or give a duration instead", p.Requests)
	case p.Duration < 0:
		return wrong("duration", "must not be negative, is %v", p.Duration)
	case p.Requests > 0 && p.Duration > 0:
		return wrong("duration", "cannot stand with --requests: a run ends after %d requests or after %v, so leave one of them out", p.Requests, p.Duration)
	case p.WarmUp < 0:
		return wrong("warm-up", "must not be negative, is %v", p.WarmUp)
	case wait < 0:
		return wrong("wait", "must not be negative, is %v (0s tries once)", wait)
	case p.Timeout < 0:
		return wrong("timeout", "must not be negative, is %v", p.Timeout)
	case p.Timeout <= wait:
		return wrong("timeout", "%v must be longer than the wait for the lock (%v), or waiting requests are cut off and their outcome is unknown",
			p.Timeout, wait)
	case p.SKUs == 1 && p.Skew != "" && p.Skew != Uniform:
		return wrong("skew", "%s needs several SKUs: give --skus too", p.Skew)
	}
	for _, q := range p.Quantities {
		if q < 1 {
			return wrong("quantity", "must be 1 or more, is %d", q)
		}
	}
	if _, err := p.Skew.weights(p.SKUs); err != nil {
		return wrong("skew", "%v", err)
	}
	return nil
}

func (p *Plan) checkClosed() error {
	switch {
	case p.Concurrency < 1 || p.Concurrency > maxWorkers:
		return wrong("concurrency", "must be from 1 to %d, is %d", maxWorkers, p.Concurrency)
	case p.RampUp < 0:
		return wrong("ramp-up", "must not be negative, is %v", p.RampUp)
	case p.RampUp > 0 && p.Duration > 0 && p.RampUp >= p.Duration:
		return wrong("ramp-up", "%v must be shorter than the duration (%v), or the last workers never start", p.RampUp, p.Duration)
	case p.MaxInFlight != 0:
		return wrong("max-in-flight", "is for the open loop: give --rate too, or --concurrency instead")
	case p.Arrivals != "":
		return wrong("arrivals", "are for the open loop: give --rate too")
	}
	return nil
}

func (p *Plan) checkOpen() error {
	switch {
	case p.Rate.From < 0 || p.Rate.To < 0 || p.Rate.From > maxRate || p.Rate.To > maxRate:
		return wrong("rate", "must be from 0 to %d requests per second, is %s", maxRate, p.Rate)
	case p.Rate.From != p.Rate.To && p.Duration == 0:
		return wrong("rate", "%s rises or falls over a time: give --duration instead of --requests", p.Rate)
	case p.Concurrency != 0:
		return wrong("concurrency", "is for the closed loop: with --rate, how many are under way at once follows from the service; --max-in-flight bounds it")
	case p.RampUp != 0:
		return wrong("ramp-up", "is for the closed loop: with --rate, give the rate as FROM..TO")
	case p.MaxInFlight < 1 || p.MaxInFlight > maxWorkers:
		return wrong("max-in-flight", "must be from 1 to %d, is %d", maxWorkers, p.MaxInFlight)
	case p.Arrivals != Poisson && p.Arrivals != Even:
		return wrong("arrivals", "must be %s or %s, is %q", Poisson, Even, string(p.Arrivals))
	}
	return nil
}

// Check says what makes p impossible, as far as that can be told without the target. The error is a PlanError.
func (p Plan) Check() error {
	p.Strategy = cmp.Or(p.Strategy, "any")
	_, err := p.filled()
	return err
}

// Connections is how many connections p may need at once.
func (p *Plan) Connections() int {
	if p.Open() {
		return cmp.Or(p.MaxInFlight, inFlight)
	}
	return max(p.Concurrency, 1)
}

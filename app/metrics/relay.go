package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Relay has the callbacks that set the metrics of a relay.
type Relay struct {
	Active            func(bool)
	Delivered, Failed func()
	Lag               func(undelivered uint64, oldest time.Duration, parked int)
}

// Relay adds the series of the relay, and returns the callbacks that set them. Call it once. The gauges are 0 in
// instances that do not hold the relay's lock, so the sum over all instances is correct.
func (m *Metrics) Relay() Relay {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "stock", Subsystem: "relay", Name: name, Help: help})
		m.registry.MustRegister(g)
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		opts := prometheus.CounterOpts{Namespace: "stock", Subsystem: "relay", Name: name, Help: help}
		c := prometheus.NewCounter(opts)
		m.registry.MustRegister(c)
		return c
	}
	active := gauge("active", "1 if this instance relays events.")
	undelivered := gauge("undelivered", "Movements that are to be delivered, of 1000 SKUs at most.")
	oldest := gauge("oldest_seconds", "Age of the oldest movement that is to be delivered.")
	parked := gauge("parked", "Events that a person must decide about: stock relay dead.")
	delivered := counter("delivered_total", "Events that were delivered, repeats included.")
	failed := counter("failed_total", "Attempts to deliver an event that failed.")
	set := func(n uint64, age time.Duration, letters int) {
		undelivered.Set(float64(n))
		oldest.Set(age.Seconds())
		parked.Set(float64(letters))
	}
	return Relay{
		Active: func(on bool) {
			if on {
				active.Set(1)
				return
			}
			active.Set(0)
			set(0, 0, 0)
		},
		Delivered: delivered.Inc, Failed: failed.Inc, Lag: set,
	}
}

// Package metrics counts requests, sales and locks in Prometheus series.
package metrics

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"example.com/stock/lock"
)

// Metrics are the series of one instance. Their labels come from the catalogue and the routes, never from a request.
type Metrics struct {
	registry *prometheus.Registry

	requests  *prometheus.HistogramVec
	problems  *prometheus.CounterVec
	ready     prometheus.Gauge
	wait      *prometheus.HistogramVec
	hold      *prometheus.HistogramVec
	outcomes  *prometheus.CounterVec
	lost      *prometheus.CounterVec
	stranded  *prometheus.CounterVec
	abandoned *prometheus.CounterVec
	wakeups   *prometheus.CounterVec
	up        *prometheus.GaugeVec
	full      *prometheus.GaugeVec
	impaired  *prometheus.GaugeVec
	sales     *prometheus.CounterVec
	stale     *prometheus.CounterVec
	dataLost  *prometheus.GaugeVec

	certificates *prometheus.GaugeVec
}

// seconds covers the range from a Redis round trip on loopback to the longest wait.
var seconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// New returns the series, including those of the Go runtime and the process.
func New(version, instance string) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registered := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return registered.NewCounterVec(prometheus.CounterOpts{Namespace: "stock", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return registered.NewGaugeVec(prometheus.GaugeOpts{Namespace: "stock", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		opts := prometheus.HistogramOpts{Namespace: "stock", Name: name, Help: help, Buckets: seconds}
		return registered.NewHistogramVec(opts, labels)
	}
	gauge("build_info", "Always 1.", "version", "instance").WithLabelValues(version, instance).Set(1)
	return &Metrics{
		registry: registry,
		requests: histogram("http_request_seconds",
			"HTTP requests by route, method and status.", "route", "method", "status"),
		problems: counter("problems_total",
			"Requests that were refused or failed, by the type of the problem.", "route", "method", "problem"),
		ready: gauge("ready", "1 if /readyz would answer 200.").WithLabelValues(),
		wait: histogram("lock_wait_seconds",
			"Time to get a lock, or to give up.", "strategy"),
		hold: histogram("lock_hold_seconds",
			"Time from getting a lock to its release or loss.", "strategy"),
		outcomes: counter("lock_acquire_total",
			"Acquisitions by outcome: acquired, held, down, overloaded, error.", "strategy", "outcome"),
		lost: counter("lock_lost_total",
			"Leases that ended before they were released.", "strategy"),
		stranded: counter("lock_stranded_total",
			"Releases that did not reach the server: the key stays until its time limit.", "strategy"),
		abandoned: counter("lock_abandoned_total",
			"Leases left to run out because the outcome was not known.", "strategy"),
		wakeups: counter("lock_wakeups_total",
			"Waiters woken by the server: for each release one, or with a herd all of them.", "strategy"),
		up: gauge("backend_up",
			"1 if the backend can be used.", "backend"),
		full: gauge("backend_full",
			"1 if the backend has no room for more data.", "backend"),
		impaired: gauge("backend_impaired",
			"1 if a part of the backend cannot be used.", "backend"),
		sales: counter("deductions_total",
			"Deductions by outcome: accepted, replayed, or the type of the problem.", "strategy", "outcome"),
		stale: counter("stale_fence_total",
			"Writes refused because a later lock holder had written.", "strategy"),
		dataLost: gauge("store_data_lost",
			"1 if the store has lost its data, and waits for a person who sets the stock.", "store"),
		certificates: gauge("certificate_end_timestamp_seconds",
			"Unix time at which the certificate that the instance presents ends, or one of its chain.", "setting"),
	}
}

// Handler serves the series.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Request counts an HTTP request.
func (m *Metrics) Request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, known(method), strconv.Itoa(status)).Observe(took.Seconds())
}

// Problem counts a request that was refused or failed. problem is the type in the reply.
func (m *Metrics) Problem(route, method, problem string) {
	m.problems.WithLabelValues(route, known(method), problem).Inc()
}

// Ready records whether the instance is ready.
func (m *Metrics) Ready(ready bool) { m.ready.Set(number(ready)) }

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// known returns method if HTTP defines it, and otherwise "other": a client may send any word, and each word would
// create permanent series.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	default:
		return "other"
	}
}

// Backend records whether a backend is up, and if not, whether it is full.
func (m *Metrics) Backend(name string, down error) {
	m.up.WithLabelValues(name).Set(number(down == nil))
	m.full.WithLabelValues(name).Set(number(errors.Is(down, lock.ErrFull)))
}

// Impaired records whether a part of a running backend cannot be used.
func (m *Metrics) Impaired(name string, warning error) {
	m.impaired.WithLabelValues(name).Set(number(warning != nil))
}

// Queue adds the series of the queue in front of a store: the operations in the store, and those that wait. load is
// called for every scrape.
func (m *Metrics) Queue(store string, load func() (in, waiting int)) {
	for state, pick := range map[string]func(in, waiting int) int{
		"in":      func(in, _ int) int { return in },
		"waiting": func(_, waiting int) int { return waiting },
	} {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "stock", Name: "store_operations",
			Help:        "Operations in the store, and those that wait for their turn.",
			ConstLabels: prometheus.Labels{"store": store, "state": state},
		}, func() float64 { return float64(pick(load())) })
	}
}

// Certificate records the end of a certificate that the instance presents, by the setting that names its file.
func (m *Metrics) Certificate(setting string, end time.Time) {
	m.certificates.WithLabelValues(setting).Set(float64(end.Unix()))
}

// Lock returns the callbacks for lock.Observe that count the locks of strategy. It creates the series at once, because
// a rate needs a first value.
func (m *Metrics) Lock(strategy string) lock.Events {
	wait, hold := m.wait.WithLabelValues(strategy), m.hold.WithLabelValues(strategy)
	lost, stranded := m.lost.WithLabelValues(strategy), m.stranded.WithLabelValues(strategy)
	wakeups, abandoned := m.wakeups.WithLabelValues(strategy), m.abandoned.WithLabelValues(strategy)
	m.stale.WithLabelValues(strategy)
	return lock.Events{
		Waited: func(_ context.Context, d time.Duration, err error) {
			wait.Observe(d.Seconds())
			m.outcomes.WithLabelValues(strategy, outcome(err)).Inc()
		},
		Ended: func(_ context.Context, d time.Duration, err error) {
			hold.Observe(d.Seconds())
			if err != nil {
				lost.Inc()
			}
		},
		Stranded: func(error) { stranded.Inc() },
		Woken:    wakeups.Inc,

		Abandoned: abandoned.Inc,
	}
}

// Deduction counts a deduction.
func (m *Metrics) Deduction(strategy, outcome string) {
	m.sales.WithLabelValues(strategy, outcome).Inc()
	if outcome == "stale_fence" {
		m.stale.WithLabelValues(strategy).Inc()
	}
}

// DataLost records whether a store has lost its data.
func (m *Metrics) DataLost(store string, lost bool) {
	m.dataLost.WithLabelValues(store).Set(number(lost))
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "acquired"
	case errors.Is(err, lock.ErrOverloaded):
		return "overloaded"
	case errors.Is(err, lock.ErrDown):
		return "down"
	case errors.Is(err, lock.ErrHeld):
		return "held"
	case errors.Is(err, lock.ErrNoCapacity):
		return "no_capacity"
	default:
		return "error"
	}
}

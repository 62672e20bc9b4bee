package app

import (
	"context"
	"database/sql"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"example.com/stock/orders/service"
)

// metrics are those of the instance; handler has those of requests.
type metrics struct {
	registry *prometheus.Registry
	units    *prometheus.CounterVec
	swept    prometheus.Gauge
}

func newMetrics(version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		units: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orders_units_total",
			Help: "Units that were moved, by kind of movement: sell, reserve, confirm, return and so on.",
		}, []string{"kind"}),
		swept: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "orders_sweep_success_timestamp_seconds",
			Help: "When expired reservations were last ended without an error.",
		}),
	}
	about := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "orders_build_info", Help: "1.", ConstLabels: prometheus.Labels{"version": version},
	})
	about.Set(1)
	m.registry.MustRegister(m.units, m.swept, about, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) pool(p *sql.DB) {
	m.registry.MustRegister(collectors.NewDBStatsCollector(p, "orders"))
}

func (m *metrics) moved(all []service.Movement) {
	for _, one := range all {
		m.units.WithLabelValues(string(one.Kind)).Add(float64(units(one)))
	}
}

// units returns how many units a movement moved, whatever from and to.
func units(m service.Movement) int64 {
	return max(abs(m.Received), abs(m.Available), abs(m.Reserved), abs(m.Sold))
}

func abs(n int64) int64 { return max(n, -n) }

// late is how long after its end a reservation counts as overdue: sweepers of all instances have missed it then.
const late = 5 * time.Second

// watched asks the database when Prometheus asks. While it does not answer, what waits there is not reported: it is not
// known, and the instance is not ready.
type watched struct {
	a                                       *App
	ready, overdue, waiting, parked, behind *prometheus.Desc
}

func (m *metrics) watch(a *App) {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	m.registry.MustRegister(&watched{
		a: a, ready: desc("orders_ready", "1 if customers may be sent to this instance."),
		overdue: desc("orders_reservations_overdue", "Reservations that have expired and are not ended."),
		waiting: desc("orders_outbox_waiting", "Events that are to be sent."),
		parked:  desc("orders_outbox_parked", "Events that were refused too often, and wait for a person."),
		behind:  desc("orders_outbox_late_seconds", "Age of the oldest event that is to be sent."),
	})
}

func (w *watched) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.ready, w.overdue, w.waiting, w.parked, w.behind} {
		out <- d
	}
}

func (w *watched) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, n float64) { out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n) }
	if w.a.ready(ctx) == nil {
		gauge(w.ready, 1)
	} else {
		gauge(w.ready, 0)
	}
	if n, err := w.a.watch.Overdue(ctx, late); err == nil {
		gauge(w.overdue, float64(n))
	}
	if b, err := w.a.watch.Backlog(ctx); err == nil {
		gauge(w.waiting, float64(b.Waiting))
		gauge(w.parked, float64(b.Parked))
		gauge(w.behind, b.Late.Seconds())
	}
}

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"example.com/stock/lock"
)

// Sales are the series of an instance that sells by strategies.
type Sales struct {
	*Metrics
	sales, stale *prometheus.CounterVec
	dataLost     *prometheus.GaugeVec
}

// NewSales returns the series of New, and those of sales.
func NewSales(version, instance string) *Sales {
	s := &Sales{
		Metrics: New(version, instance),
		sales: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "stock", Name: "deductions_total",
			Help: "Deductions by outcome: accepted, or the type of the problem.",
		}, []string{"strategy", "outcome"}),
		stale: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "stock", Name: "stale_fence_total",
			Help: "Writes refused because a later lock holder had written.",
		}, []string{"strategy"}),
		dataLost: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "stock", Name: "store_data_lost",
			Help: "1 if the store has lost its data, and waits for a person who sets the stock.",
		}, []string{"store"}),
	}
	s.registry.MustRegister(s.sales, s.stale, s.dataLost)
	return s
}

// Lock is like Metrics.Lock, but also adds the series of writes refused because of a stale fence.
func (s *Sales) Lock(strategy string) lock.Events {
	s.stale.WithLabelValues(strategy)
	return s.Metrics.Lock(strategy)
}

// Deduction counts a deduction.
func (s *Sales) Deduction(strategy, outcome string) {
	s.sales.WithLabelValues(strategy, outcome).Inc()
	if outcome == "stale_fence" {
		s.stale.WithLabelValues(strategy).Inc()
	}
}

// DataLost records whether a store has lost its data.
func (s *Sales) DataLost(store string, lost bool) {
	s.dataLost.WithLabelValues(store).Set(number(lost))
}

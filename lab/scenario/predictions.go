package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// Predictions that several scenarios share. Each follows from a part of the promise. The prediction of a single
// scenario is in the scenario's file.

// excludes returns the forecast for two buyers of the last unit on two instances. It follows from the lock's scope.
func excludes(_ lab.Case, p lab.StrategyPromise) lab.Forecast {
	if p.Scope == loadtest.Cluster {
		return lab.Forecast{Outcome: lab.Safe, From: "scope: cluster"}
	}
	return lab.Forecast{Outcome: lab.Oversells, From: "scope: " + p.Scope}
}

// freed returns the forecast for a key whose holder has crashed.
func freed(_ lab.Case, p lab.StrategyPromise) lab.Forecast {
	if d, ok := p.Freed(); ok {
		return lab.Forecast{Outcome: lab.Delays, Within: d, From: "freed_after_crash_seconds"}
	}
	return lab.Forecast{Outcome: lab.Blocks, From: "freed_after_crash_seconds: null"}
}

// fenced returns the forecast for a late write that only a fence can refuse.
func fenced(_ lab.Case, p lab.StrategyPromise) lab.Forecast {
	if p.Fenced {
		return lab.Forecast{Outcome: lab.Refuses, From: "fenced"}
	}
	return lab.Forecast{Outcome: lab.Oversells, From: "fenced: false"}
}

// lateWriter returns the forecast for a holder whose lease ends before it writes.
func lateWriter(c lab.Case, p lab.StrategyPromise) lab.Forecast {
	late := lateRequest(c.Variant)
	switch {
	case !late.IgnoreLoss && p.SignalsLoss:
		return lab.Forecast{Outcome: lab.Refuses, From: "signals_loss"}
	case late.IgnoreLoss && !late.Unfenced:
		return fenced(c, p)
	default:
		return lab.Forecast{Outcome: lab.Oversells, From: "exclusive, while no lease is lost"}
	}
}

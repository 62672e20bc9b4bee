package loadtest

import (
	"fmt"
	"strings"
)

// A Problem is a refusal by the service (RFC 9457).
type Problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Field   string `json:"field"`
	OrderID string `json:"order_id"`
	Sent    *bool  `json:"sent"` // of a gateway: whether an instance got the request
}

// Name is the last part of the type: "lock_busy" of "/problems/lock_busy".
func (p *Problem) Name() string { return p.Type[strings.LastIndexByte(p.Type, '/')+1:] }

// Outcome is what the refusal says of the sale.
func (p *Problem) Outcome() Outcome {
	switch p.Name() {
	case "lock_busy", "lock_timeout", "overloaded", "no_capacity": // the last two: somewhere a queue was full, and nothing was done
		return Busy
	case "sold_out":
		return SoldOut
	case "outcome_unknown", "internal": // a crash may come after the sale
		return Unknown
	case "bad_gateway", "gateway_timeout": // of the proxy in front, which may know that it reached no instance
		if p.Sent == nil || *p.Sent {
			return Unknown
		}
	}
	return Failed
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	return fmt.Sprintf("%d %s: %s", p.Status, p.Name(), text)
}

// A TargetError says that the target cannot be used: it is down, refuses, or is not a stock service. A refusal unwraps to a Problem.
type TargetError struct {
	URL string
	Err error
}

func (e *TargetError) Error() string { return e.URL + " " + e.Err.Error() }

// Unwrap is the cause.
func (e *TargetError) Unwrap() error { return e.Err }

// A PlanError says that a run as asked for is impossible: Field is the name of the Plan's field in JSON, and of the flag.
type PlanError struct{ Field, Reason string }

func (e *PlanError) Error() string { return e.Field + ": " + e.Reason }

package loadtest

import (
	"fmt"
	"strings"
)

// Load says in words how p puts load on the service: "30 workers", or "1000 requests/s, poisson arrivals".
func (p *Plan) Load() string {
	var b strings.Builder
	if p.Open() {
		fmt.Fprintf(&b, "%s requests/s, %s arrivals", p.Rate, p.Arrivals)
	} else {
		b.WriteString(plural(p.Concurrency, "worker"))
		if p.RampUp > 0 {
			fmt.Fprintf(&b, " within %v", p.RampUp)
		}
	}
	if p.Duration > 0 {
		fmt.Fprintf(&b, " for %v", p.Duration)
	}
	if p.WarmUp > 0 {
		fmt.Fprintf(&b, " after %v of warm-up", p.WarmUp)
	}
	return b.String()
}

// Goods says in words what a request asks for: "SKU pen", or "20 SKUs pen-1 to pen-20, zipf:1.1".
func (p *Plan) Goods() string {
	if p.SKUs <= 1 {
		return "SKU " + p.SKU
	}
	list := p.Names()
	text := fmt.Sprintf("%d SKUs %s to %s", p.SKUs, list[0], list[len(list)-1])
	if p.Skew != "" {
		text += ", " + string(p.Skew)
	}
	return text
}

// Units says in words how many units a request asks for: "1 unit", or "1,2,5 units".
func (p *Plan) Units() string {
	if len(p.Quantities) > 1 {
		return p.quantityText() + " units"
	}
	if len(p.Quantities) == 1 {
		return plural(p.Quantities[0], "unit")
	}
	return plural(p.Quantity, "unit")
}

package loadtest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// commandLine runs p against target once more, by hand. It names no token: that is not to be on file.
func commandLine(target string, p *Plan) string {
	parts := []string{"stock", "load", "--url", target}
	add := func(flag, value string) { parts = append(parts, "--"+flag, value) }
	if p.Mapping != "" {
		add("mapping", p.Mapping)
	} else {
		add("strategy", p.Strategy)
	}
	if p.Store != "" {
		add("store", p.Store)
	}
	add("sku", p.SKU)
	if p.SKUs > 1 {
		add("skus", strconv.Itoa(p.SKUs))
	}
	if p.Skew != "" {
		add("skew", string(p.Skew))
	}
	add("stock", strconv.FormatInt(p.Stock, 10))
	add("quantity", p.quantityText())
	if p.Open() {
		add("rate", p.Rate.String())
		add("arrivals", string(p.Arrivals))
		add("max-in-flight", strconv.Itoa(p.MaxInFlight))
	} else {
		add("concurrency", strconv.Itoa(p.Concurrency))
	}
	if p.RampUp > 0 {
		add("ramp-up", p.RampUp.String())
	}
	if p.Duration > 0 {
		add("duration", p.Duration.String())
	} else {
		add("requests", strconv.Itoa(p.Requests))
	}
	if p.WarmUp > 0 {
		add("warm-up", p.WarmUp.String())
	}
	add("seed", strconv.FormatUint(p.Seed, 10))
	if p.Wait != nil {
		add("wait", p.Wait.String())
	}
	add("timeout", p.Timeout.String())
	if p.Cold {
		parts = append(parts, "--cold")
	}
	if p.Shared {
		parts = append(parts, "--shared")
	}
	for i, part := range parts {
		parts[i] = shellWord(part)
	}
	return strings.Join(parts, " ")
}

// quantityText is what ParseQuantities reads.
func (p *Plan) quantityText() string {
	if len(p.Quantities) == 0 {
		return strconv.FormatInt(p.Quantity, 10)
	}
	list := strings.Fields(strings.Trim(fmt.Sprint(p.Quantities), "[]"))
	return strings.Join(list, ",")
}

// shellWord quotes text where a shell would not take it as it is.
func shellWord(text string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_./:,=@%+-]+$`).MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

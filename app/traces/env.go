package traces

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// An EnvError reports a variable of the environment with an unusable value. Known lists the usable ones; empty: the
// variable has no such list.
type EnvError struct {
	Name, Value string
	Known       []string
}

func (e *EnvError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("%s: %q cannot be used", e.Name, e.Value)
	}
	return fmt.Sprintf("%s: %q is none of %s", e.Name, e.Value, strings.Join(e.Known, ", "))
}

type environment struct {
	on          bool
	root        sdk.Sampler // decides by the trace id
	parentBased bool        // if a request has a traceparent, that decides
}

// sampler is that of the spans.
func (e environment) sampler() sdk.Sampler {
	if e.parentBased {
		return sdk.ParentBased(e.root)
	}
	return e.root
}

// readEnv reads those of the OTEL_* variables that the SDK would ignore if it did not understand them.
func readEnv(getenv func(string) string) (e environment, err error) {
	choose := func(name string, known ...string) string {
		value := getenv(name)
		if err == nil && value != "" && !slices.Contains(known, value) {
			err = &EnvError{name, value, known}
		}
		return value
	}
	disabled := strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true")
	exporter := choose("OTEL_TRACES_EXPORTER", "otlp", "none")
	if e.on = exporter == "otlp" && !disabled; !e.on {
		return e, err
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		choose(name, "http/protobuf")
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		value := getenv(name)
		u, bad := url.Parse(value)
		if value != "" && err == nil && (bad != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			err = &EnvError{Name: name, Value: value}
		}
	}
	name := choose("OTEL_TRACES_SAMPLER", "always_on", "always_off", "traceidratio",
		"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")
	ratio := 1.0
	const arg = "OTEL_TRACES_SAMPLER_ARG"
	if value := getenv(arg); value != "" && err == nil {
		var bad error
		if ratio, bad = strconv.ParseFloat(value, 64); bad != nil || !(ratio >= 0 && ratio <= 1) {
			return e, &EnvError{Name: arg, Value: value}
		}
	}
	name, based := strings.CutPrefix(name, "parentbased_")
	e.parentBased = based || name == ""
	switch name {
	case "always_off":
		e.root = sdk.NeverSample()
	case "traceidratio":
		e.root = sdk.TraceIDRatioBased(ratio)
	default:
		e.root = sdk.AlwaysSample()
	}
	return e, err
}

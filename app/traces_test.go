package app

import (
	"strings"
	"testing"
)

// An environment that the SDK would misunderstand keeps an instance from starting. Its value is quoted: it may have
// line breaks.
func TestAnUnusableEnvironmentOfTraces(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	for name, value := range map[string]string{
		"OTEL_TRACES_SAMPLER_ARG": "a\nlot", "OTEL_TRACES_SAMPLER": "some\ntimes",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			a := &App{cfg: mustConfigure(t, backends()...)}
			err := a.openTraces()
			if err == nil || !strings.Contains(err.Error(), name) ||
				!strings.Contains(err.Error(), strings.ReplaceAll(value, "\n", `\n`)) {
				t.Errorf("%v, want %s and its value, quoted", err, name)
			}
		})
	}
}

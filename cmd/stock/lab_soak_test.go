package main

import (
	"strings"
	"testing"
)

// The plan can be read without running it, and is the same for the same seed.
func TestLabSoakPlan(t *testing.T) {
	plan := func(args ...string) string {
		t.Helper()
		out, _, err := run(t.Context(), append([]string{"lab", "soak", "--plan", "--for", "1m"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	seven := plan("--seed", "7")
	if !strings.Contains(seven, "stock lab soak --for 1m0s --seed 7 --instances 3\n   1  quiet for ") {
		t.Errorf("the plan does not say how to run it again:\n%s", seven)
	}
	if seven != plan("--seed", "7") || seven == plan("--seed", "8") {
		t.Errorf("the plan does not follow from the seed:\n%s", seven)
	}
	if one, two := plan(), plan(); one == two {
		t.Error("without a seed there should be another every time")
	}
}

func TestLabSoakRefusesWhatIsImpossible(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"--for 10ms", "--for: must be from 1s to 24h"},
		{"--instances 1", "--instances: must be from 2 to 8"},
		{"--healthy-within 0s", "--healthy-within: must be more than 0s"},
		{"10m", "unknown command"},
	} {
		_, _, err := run(t.Context(), append([]string{"lab", "soak"}, strings.Fields(row.args)...)...)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("stock lab soak %s: %v, want %q", row.args, err, row.want)
		}
	}
}

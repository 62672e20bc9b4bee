package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/internal/words"
)

// root is the folder of the service's module.
const root = "../.."

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	made, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range made {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is out of date (%v): cd tools && go run ./alerts", name, err)
		}
	}
}

// Prometheus accepts the rules and the example of a configuration, and each alert does what its examples say.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatalf("REQUIRE_BACKENDS=1, but %v", err)
		}
		t.Skip("promtool is not installed (Debian package prometheus)")
	}
	for _, args := range [][]string{
		{"check", "rules", "stock.rules.yml"},
		{"check", "config", "prometheus.yml"},
		{"test", "rules", "tests.yml"},
	} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join(root, "deploy/prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestEveryAlertIsWhole(t *testing.T) {
	seen := make(map[string]bool)
	texts, err := words.ReadTexts(files, "text")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range catalogue() {
		if seen[a.Name] {
			t.Errorf("%s is there twice", a.Name)
		}
		seen[a.Name] = true
		if a.Severity != page && a.Severity != ticket {
			t.Errorf("%s has the severity %q", a.Name, a.Severity)
		}
		if len(a.Fires) == 0 || len(a.Quiet) == 0 {
			t.Errorf("%s has %d examples that fire it and %d that do not", a.Name, len(a.Fires), len(a.Quiet))
		}
		for _, e := range a.Fires { // a label that the alert lacks would be empty in the text that a person reads
			for _, p := range placeholder.FindAllStringSubmatch(texts["alerts."+a.Name+".summary"].EN, -1) {
				if e.Labels[p[1]] == "" {
					t.Errorf("%s: the summary has {%s}, which is no label of the alert in %q", a.Name, p[1], e.What)
				}
			}
		}
		for _, suffix := range []string{".md", ".zh-CN.md"} {
			if a.Runbook == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, "docs/runbooks", a.Runbook+suffix)); err != nil {
				t.Errorf("%s: %v", a.Name, err)
			}
		}
	}
	for key := range texts.Under("alerts") {
		if name, _, _ := strings.Cut(key, "."); !seen[name] {
			t.Errorf("text: there is no alert %s", name)
		}
	}
}

// answers are the problems that tell the customer how the sale has ended, and those that the client has caused.
var answers = []string{
	"below_zero", "client_gone", "extended_too_soon", "idempotency_in_flight",
	"idempotency_key_reused", "invalid", "limit_reached", "method_not_allowed", "not_evictable", "not_found",
	"not_inspectable", "not_paused", "not_yours", "order_settled", "order_too_old", "precondition_failed",
	"rate_limited",
	"request_timeout", "reservation_expired", "scope_missing", "sold_out", "stock_reset", "strategy_mismatch",
	"too_large", "too_many_reservations", "unauthorized", "unknown_sku", "unknown_strategy", "unsupported_media_type",
	"wrong_state",
	// Only a gateway replies with these. They reach no metric of an instance.
	"bad_gateway", "gateway_timeout",
}

// Somebody who adds a problem must say whether it counts against the objective.
func TestEveryProblemIsAnAnswerOrAFailure(t *testing.T) {
	texts, err := words.ReadTexts(os.DirFS(filepath.Join(root, "handler")), "text")
	if err != nil {
		t.Fatal(err)
	}
	problems := problemNames(texts)
	if len(problems) < 30 {
		t.Fatalf("the problems are %q, which cannot be all", problems)
	}
	for _, name := range problems {
		if slices.Contains(failures, name) == slices.Contains(answers, name) {
			t.Errorf("%s must be in failures or in answers, and not in both", name)
		}
	}
	for _, name := range slices.Concat(failures, answers) {
		if !slices.Contains(problems, name) {
			t.Errorf("there is no problem %s", name)
		}
	}
}

var titled = regexp.MustCompile(`^([a-z_]+)\.title$`)

// problemNames are the keys of the texts that have a title.
func problemNames(texts words.Texts) (names []string) {
	for key := range texts {
		if m := titled.FindStringSubmatch(key); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

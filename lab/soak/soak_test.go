package soak

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/lock/locktest/server"
)

// soakOnce runs a soak, and checks what must hold on any computer: nothing is sold wrongly and nothing is left behind.
// How soon it is healthy depends on the load of the computer.
func soakOnce(ctx context.Context, t *testing.T, o Random) Report {
	t.Helper()
	o.Binary, o.Parent = program.Path(t), t.TempDir()
	var said bytes.Buffer
	tell := o.Say
	o.Say = func(at time.Duration, text words.Text) {
		said.WriteString(at.String() + " " + text.EN + "\n")
		if tell != nil {
			tell(at, text)
		}
	}
	report, err := o.Run(ctx)
	var missing *server.MissingError
	if errors.As(err, &missing) && os.Getenv("REQUIRE_BACKENDS") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if left, err := os.ReadDir(o.Parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var text bytes.Buffer
	Writer{&text, "en"}.Report(&report)
	sold := int64(0)
	for _, l := range report.Results {
		sold += l.SoldUnits
		for _, why := range l.Broken {
			t.Errorf("%s on %s: %s", l.Strategy, l.Store, why)
		}
	}
	if len(report.Injected) == 0 || sold == 0 || len(report.Results) == 0 {
		t.Errorf("%d faults, %d units sold", len(report.Injected), sold)
	}
	t.Logf("%s\n%s", said.String(), text.String()) // is seen if the test fails, or with -v
	return report
}

// Whatever fails, every unit is sold once.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	report := soakOnce(t.Context(), t, Random{For: 18 * time.Second, Seed: 6})
	if report.Interrupted {
		t.Error("it says that it was interrupted")
	}
	for _, l := range report.Results {
		if merges := strings.HasSuffix(l.Strategy, "merged"); merges != (l.Merged > 0) {
			t.Errorf("%s on %s: %d sales were made in a batch with others", l.Strategy, l.Store, l.Merged)
		}
	}
}

// An interrupted soak gives its verdict, and nothing stays broken or running.
func TestAnInterruptEndsWithTheVerdict(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	fault := func(_ time.Duration, text words.Text) {
		if strings.Contains(text.EN, " for ") {
			interrupt()
		}
	}
	report := soakOnce(ctx, t, Random{Options: Options{Say: fault}, For: time.Hour, Seed: 2})
	if !report.Interrupted || report.SoldMS > ms(10*time.Minute) {
		t.Errorf("interrupted: %v, after %v", report.Interrupted, duration(report.SoldMS))
	}
}

package loadtest_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

func TestParseCommand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]loadtest.Command{
		"2s=docker kill app-2": {AtMS: 2000, Shell: "docker kill app-2"},
		" 1m30s = a=b c":       {AtMS: 90_000, Shell: "a=b c"},
		"0s=true":              {Shell: "true"},
		"24h=true":             {AtMS: 86_400_000, Shell: "true"},
	} {
		c, err := loadtest.ParseCommand(text)
		if err != nil || c != want {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
		if again, err := loadtest.ParseCommand(c.String()); err != nil || again != want {
			t.Errorf("%q: %+v, %v", c.String(), again, err)
		}
	}
	for _, text := range []string{"docker kill app-2", "2=true", "-1ns=true", "24h0m1ns=true", "2s=", "1s= "} {
		if c, err := loadtest.ParseCommand(text); err == nil {
			t.Errorf("%q is %+v", text, c)
		}
	}
}

// Output and exit status are kept; what is not due before the end is not run; what still runs then is killed, with the
// processes that it has started.
func TestRunCommands(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var log bytes.Buffer // RunCommands writes from one goroutine at a time, and none after it has returned
	done := make(chan []loadtest.Ran)
	first, second := t.TempDir()+"/begun", t.TempDir()+"/begun"
	go func() {
		done <- loadtest.RunCommands(ctx, time.Now(), []loadtest.Command{
			{Shell: "echo one; echo two >&2; touch " + first + "; exit 3"},
			{Shell: "sleep 1000 & echo $! > " + second + ".new; mv " + second + ".new " + second + "; sleep 1000"},
			{AtMS: 3_600_000, Shell: "true"},
		}, &log)
	}()
	for _, marker := range []string{first, second} {
		for _, err := os.Stat(marker); err != nil; _, err = os.Stat(marker) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	end()
	ran := <-done
	if !strings.Contains(ran[1].Failed, "killed") || ran[1].StartedAt.IsZero() {
		t.Errorf("a command that would not end: %+v", ran[1])
	}
	child, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	running := func() bool { // the command line of a process that nobody has waited for yet is empty
		line, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/cmdline")
		return len(line) > 0
	}
	for tries := 0; running(); tries++ {
		if tries == 500 {
			t.Fatal("a process that the command had started was not killed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !ran[2].StartedAt.IsZero() {
		t.Errorf("a command after the end: %+v", ran[2])
	}
	if ran[0].Failed != "exit status 3" || ran[0].TookMS <= 0 {
		t.Errorf("%+v", ran[0])
	}
	for _, want := range []string{"] $ echo one; echo two", "]   one\n", "]   two\n", ": exit status 3\n"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, &log)
		}
	}
}

// After several commands, a reply belongs to the latest, and the next sale is that of each.
func TestAftermath(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	ran := []loadtest.Ran{{StartedAt: at(200)}, {StartedAt: at(100)}, {}}
	sent := []loadtest.Sent{
		{At: at(50), Done: at(150), Outcome: "accepted", Sale: true}, // asked for before
		{At: at(110), Done: at(120), Outcome: "failed"},
		{At: at(130), Done: at(190), Outcome: "accepted", Sale: true},
		{At: at(120), Done: at(140), Outcome: "accepted", Sale: true},
		{At: at(210), Done: at(900), Outcome: "unknown"},
	}
	loadtest.Aftermath(ran, sent, func(s *loadtest.Sent) loadtest.Sent { return *s })
	if r := ran[1]; r.NextSaleMS != 40 || r.Then["failed"] != 1 || r.Then["accepted"] != 2 || len(r.Then) != 2 {
		t.Errorf("the first: %+v", r)
	}
	if r := ran[0]; r.NextSaleMS != 0 || r.Then["unknown"] != 1 || len(r.Then) != 1 {
		t.Errorf("the second: %+v", r)
	}
	if r := ran[2]; r.Then != nil {
		t.Errorf("one that was not run: %+v", r)
	}
}

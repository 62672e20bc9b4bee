package grade_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/stock/lab/grade"
	"example.com/stock/lock/locktest/server"
)

// misbehaved runs a shell script as the lock, in the simplest scenario.
func misbehaved(t *testing.T, script string) grade.Result {
	t.Helper()
	need(t, "bash")
	report := run(t, grade.Options{
		Command: []string{"bash", "-c", script}, Servers: []server.Kind{server.Redis}, Only: []string{"holder-killed"},
		Lease: time.Second, Wait: time.Second, Grace: time.Second,
	})
	if worst := report.Worst(); worst != grade.Ungraded && report.Results[0].Grade == grade.Ungraded {
		t.Errorf("the worst of an ungraded scenario is %s", worst)
	}
	return report.Results[0]
}

// A lock that breaks the protocol is not graded. The reason quotes what it wrote, bounded and printable, and names what
// was expected.
func TestWrongReplies(t *testing.T) {
	t.Parallel()
	const answer = `while read -r verb key argument; do [ $verb = release ] && echo ok || `
	for _, row := range []struct{ script, want string }{
		{`while read -r l; do echo "Connecting ..."; done`, `is "Connecting ...": the first word is none of those`},
		{`while read -r l; do echo; done`, `is "": the line is empty; expected ok TOKEN [FENCE] | busy | error TEXT`},
		{`while read -r l; do echo ok; done`, `is "ok": there is no token after ok`},
		{`while read -r l; do echo ok 1 2 3; done`, `is "ok 1 2 3": there is more than a token and a fence`},
		{`while read -r l; do echo ok t -1; done`, `the fence "-1" must be a whole number greater than 0`},
		{`while read -r l; do printf 'ok \e[31mred\n'; done`, `is "ok \x1b[31mred": the token must be printable`},
		{`while read -r l; do cat <<<$'ok t\nbye'; done`, `is "ok t\nbye\n": there is more than one line`},
		{`while :; do printf xxxxxxxx; done`, `a line may have at most 1024 bytes`},
		{`read -r l; printf half`, `is "half": the process ended in the middle of the line`},
		{`read -r l; echo the disk is full >&2; exit 7`, `exit status 7; its standard error ends in "the disk`},
		{`exit 3`, `the process of the lock ended: exit status 3`},
		{`while read -r l; do echo error no such host; done`, `not granted within 1s; last reply: error no such host`},
		{`while read -r l; do echo busy; done`, `was not granted within 1s; last reply: busy`},
		{answer + `echo ok t; done; echo never`, ``},
	} {
		t.Run(row.script, func(t *testing.T) {
			t.Parallel()
			r := misbehaved(t, row.script)
			switch {
			case row.want == "" && r.Grade == grade.Ungraded:
				t.Errorf("a lock that keeps the protocol is ungraded: %s", r.Why)
			case row.want != "" && r.Grade != grade.Ungraded || !strings.Contains(r.Why, row.want):
				t.Errorf("%s: %s\nwant %s", r.Grade, r.Why, row.want)
			}
			if len(r.Why) > 600 || strings.ContainsRune(r.Why, '\x1b') || r.ZH == "" {
				t.Errorf("%d bytes: %q, %q", len(r.Why), r.Why, r.ZH)
			}
		})
	}
}

// Nothing that a lock does hangs the grader, or stays behind: not a flood of errors, and not a process that leaves its
// group, forgets its environment, and has children of its own.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := misbehaved(t, `pids=`+dir+`/$$
		sleep 1000 & echo $! >>$pids
		setsid sleep 1000 & echo $! >>$pids
		env -i setsid sleep 1000 & echo $! >>$pids
		env -i setsid sh -c "sleep 1000 & echo \$! >>$pids; exec setsid sleep 1000" & echo $! >>$pids
		( while :; do echo noise; done ) >&2 & echo $! >>$pids
		until [ $(wc -l <$pids) -eq 6 ]; do sleep 0.01; done
		while read -r verb key argument; do [ $verb = release ] && echo ok || echo ok t; done`)
	if r.Grade == grade.Ungraded {
		t.Errorf("ungraded: %s", r.Why)
	}
	contenders, err := filepath.Glob(dir + "/*")
	if err != nil || len(contenders) < 2 {
		t.Fatalf("%d contenders, %v", len(contenders), err)
	}
	var list []string
	for _, pids := range contenders {
		text, err := os.ReadFile(pids)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, strings.Fields(string(text))...)
	}
	for _, each := range list {
		pid, _ := strconv.Atoi(each)
		gone := func() bool {
			status, err := os.ReadFile("/proc/" + each + "/stat")
			return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(status), ") Z ")
		}
		for end := time.Now().Add(patience); !gone(); {
			if time.Now().After(end) {
				t.Fatalf("process %d is still there", pid)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

package grade_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lab/grade"
	"example.com/stock/lock/locktest/server"
)

const (
	starters = "../../docs/examples/grade/"
	fixed    = "testdata/fixed/"
	lessons  = "../../docs/lessons/"
)

// A starter is a broken lock, and a scenario in which it must fail.
type starter struct {
	name     string
	scenario string
	want     grade.Grade
	server   server.Kind
	twin     string // the fixed lock; empty: the file of this name in fixed
}

const (
	leaseRedis = starters + "lease-redis.sh" // the lock to start from is what several broken ones become
	zkFixed    = fixed + "zk"
	asShown    = "the lock, with the fix that lesson 3 shows"
)

// The first three are also tested with -short.
var broken = []starter{
	{"setnx.sh", "holder-killed", grade.Blocks, server.Redis, leaseRedis},
	{"four_lines.py", "late-release", grade.Oversells, server.Redis, asShown},
	{"get-then-del.sh", "release-in-steps", grade.Oversells, server.Redis, leaseRedis},
	{"four-lines", "crash-between-commands", grade.Blocks, server.Redis, asShown},
	{"four-lines", "late-release", grade.Oversells, server.Redis, asShown},
	{"four_lines.py", "crash-between-commands", grade.Blocks, server.Redis, asShown},
	{"mutex.sh", "thirty-at-once", grade.Oversells, server.Redis, leaseRedis},
	{"no-renewal.sh", "work-outlasts-lease", grade.Oversells, server.Redis, ""},
	{"no-fence.sh", "holder-frozen", grade.Oversells, server.Redis, ""},
	{"waits-forever.sh", "two-keys", grade.Blocks, server.Redis, leaseRedis},
	{"lease-redis.sh", "server-restarted", grade.Oversells, server.Redis, zkFixed},
	{"get-lock.sh", "thirty-at-once", grade.Oversells, server.MySQL, ""},
	{"row.sh", "holder-killed", grade.Blocks, server.MySQL, ""},
	{"backoff.sh", "hundred-waiters", grade.Starves, server.Redis, leaseRedis},
	{"zk-persistent", "holder-killed", grade.Blocks, server.ZooKeeper, zkFixed},
	{"zk-orphan", "lost-reply", grade.Blocks, server.ZooKeeper, zkFixed},
}

// Every broken starter fails where its first lines say, and its fixed twin holds there.
func TestStarters(t *testing.T) {
	for i, s := range broken {
		t.Run(s.name+"/"+s.scenario, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && i >= 3 {
				t.Skip("long: make verify")
			}
			// On a busy computer the lock may lose its first connection, and be ungraded.
			r := grade.Result{Grade: grade.Ungraded}
			for try := 0; try < 5 && r.Grade == grade.Ungraded; try++ {
				r = graded(t, starters+s.name, s.server, s.scenario, time.Second, 4*time.Second)
			}
			if r.Grade != s.want {
				t.Errorf("%s in %s: %s, want %s: %s", s.name, s.scenario, r.Grade, s.want, r.Why)
			}
			if s.scenario == "late-release" && !strings.HasPrefix(strings.ToUpper(r.Why), "A'S LATE RELEASE (DEL ") {
				t.Errorf("the reason does not name the command: %s", r.Why)
			}
			twin, kind, lease := cmp.Or(s.twin, fixed+s.name), s.server, time.Second
			switch twin {
			case zkFixed:
				kind = server.ZooKeeper
			case asShown:
				twin = mended(t, s.name)
			}
			if s.scenario == "work-outlasts-lease" {
				lease = 5 * time.Second // its watchdog may be late on a busy computer
			}
			r = graded(t, twin, kind, s.scenario, lease, patience)
			if r.Grade != grade.Holds {
				t.Errorf("the twin of %s in %s: %s, want %s: %s", s.name, s.scenario, r.Grade, grade.Holds, r.Why)
			}
		})
	}
}

// Every starter is in the table, and says in which scenario it fails.
func TestEveryStarterIsTested(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(starters + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", files, err)
	}
	toStart := []string{"LeaseRedis.java", "lease-redis.sh"}
	for _, file := range files {
		name := filepath.Base(file)
		isIt := func(s starter) bool { return s.name == name }
		if !slices.Contains(toStart, name) && !slices.ContainsFunc(broken, isIt) {
			t.Errorf("%s is not in the table of broken starters", name)
		}
	}
	for _, s := range broken {
		says := regexp.MustCompile(`--only ([a-z-]+,)*` + s.scenario + `[, ]`)
		if !slices.Contains(toStart, s.name) && !says.MatchString(read(t, source(starters+s.name))) {
			t.Errorf("%s does not say that it fails in %s", s.name, s.scenario)
		}
	}
}

// The lock in Java holds. A hundred wait for it, because its processes start slowly.
func TestTheLockInJava(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: make verify")
	}
	for _, scenario := range []string{"late-release", "lost-reply", "hundred-waiters"} {
		r := graded(t, starters+"LeaseRedis.java", server.Redis, scenario, time.Second, patience)
		if r.Grade != grade.Holds {
			t.Errorf("%s: %s, want %s: %s", scenario, r.Grade, grade.Holds, r.Why)
		}
	}
}

// diffs matches the text of a diff.
var diffs = regexp.MustCompile("(?s)```diff\n(.*?)```")

// mended returns a copy of a starter with the fix that lesson 3 shows.
func mended(t *testing.T, name string) string {
	t.Helper()
	asIs := read(t, source(starters+name))
	program, chinese := asIs, read(t, lessons+"03-setnx-and-its-traps.zh-CN.md")
	for _, diff := range diffs.FindAllStringSubmatch(read(t, lessons+"03-setnx-and-its-traps.md"), -1) {
		if !strings.Contains(chinese, diff[0]) {
			t.Errorf("lesson 3 has another fix in Chinese than\n%s", diff[1])
		}
		var before, after strings.Builder
		for line := range strings.Lines(diff[1]) {
			switch line[0] {
			case '-':
				before.WriteString(line[1:])
			case '+':
				after.WriteString(line[1:])
			default:
				same := strings.TrimPrefix(line, " ")
				before.WriteString(same)
				after.WriteString(same)
			}
		}
		program = strings.Replace(program, before.String(), after.String(), 1)
	}
	if program == asIs {
		t.Fatalf("lesson 3 shows no fix of %s as it is", name)
	}
	lock := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(source(lock)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source(lock), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	return lock
}

// source returns the file that has the text of a lock.
func source(lock string) string {
	if filepath.Ext(lock) == "" {
		return filepath.Join(lock, "main.go")
	}
	return lock
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// graded grades one lock in one scenario.
func graded(t *testing.T, lock string, kind server.Kind, scenario string, lease, wait time.Duration) grade.Result {
	t.Helper()
	var command []string
	waiters := 30 // processes that do not starve each other
	switch filepath.Ext(lock) {
	case ".sh":
		command = []string{"bash", lock}
		need(t, map[server.Kind]string{server.Redis: "redis-cli", server.MySQL: "mysql"}[kind])
	case ".py":
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip(err) // also with REQUIRE_BACKENDS=1: no test of the service needs it
		}
		command = []string{"python3", lock}
	case ".java":
		javac, err := exec.LookPath("javac")
		if err != nil {
			t.Skip(err) // as for Python
		}
		dir := t.TempDir()
		if out, err := exec.Command(javac, "-d", dir, lock).CombinedOutput(); err != nil {
			t.Fatalf("javac: %v\n%s", err, out)
		}
		command, waiters = []string{"java", "-XX:+UseSerialGC", "-Xmx32m", "-cp", dir, "LeaseRedis"}, 100
	default:
		program := filepath.Join(t.TempDir(), "lock")
		if out, err := exec.Command("go", "build", "-o", program, source(lock)).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", lock, err, out)
		}
		command = []string{program}
	}
	report := run(t, grade.Options{
		Command: command, Servers: []server.Kind{kind}, Only: []string{scenario},
		Lease: lease, Wait: wait, Grace: wait, Waiters: waiters,
	})
	return report.Results[0]
}

// patience is how long a good lock may take on a busy computer. Where a lock must fail, the tests wait less.
const patience = 30 * time.Second

// run grades a lock, and skips the test if a server is missing.
func run(t *testing.T, o grade.Options) grade.Report {
	t.Helper()
	missing := ""
	o.Server = func(e server.Event) {
		if e.What == "missing" {
			missing = e.Detail
		}
	}
	o.Parent = t.TempDir()
	report, err := grade.Run(t.Context(), o)
	if missing != "" {
		skip(t, missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// need skips the test if a program is missing.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		skip(t, err.Error())
	}
}

func skip(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("REQUIRE_BACKENDS") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// The lesson has the starter in bash as it is, and lists each broken one with its scenario.
func TestThePageAboutStarters(t *testing.T) {
	t.Parallel()
	const lesson = lessons + "12-grade-your-own-lock"
	for _, page := range []string{lesson + ".md", lesson + ".zh-CN.md"} {
		text := read(t, page)
		if !strings.Contains(text, "```bash\n"+read(t, leaseRedis)+"```") {
			t.Errorf("%s has another lease-redis.sh", page)
		}
		for _, s := range broken {
			row := regexp.MustCompile(`(?m)^\|.* \[` + regexp.QuoteMeta(s.name) + "\\].*\\|.* `" + s.scenario + "`")
			if !row.MatchString(text) {
				t.Errorf("%s has no row that says that %s fails in %s", page, s.name, s.scenario)
			}
		}
		for _, s := range grade.Scenarios() {
			toRead := strings.TrimPrefix(s.Read, "docs/lessons/")
			if strings.Contains(page, "zh-CN") {
				toRead = strings.Replace(toRead, ".md", ".zh-CN.md", 1)
			}
			row := regexp.MustCompile("(?m)^\\| `" + s.Name + "` .*" + regexp.QuoteMeta(toRead))
			if !row.MatchString(text) {
				t.Errorf("%s has no row of %s with %s", page, s.Name, toRead)
			}
			if _, err := os.Stat("../../" + s.Read); err != nil {
				t.Error(err)
			}
		}
	}
}

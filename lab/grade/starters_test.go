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
)

// A starter is a broken lock, and the one scenario in which it must fail.
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
)

// The first three are also tested with -short.
var broken = []starter{
	{"setnx.sh", "holder-killed", grade.Blocks, server.Redis, leaseRedis},
	{"del.sh", "late-release", grade.Oversells, server.Redis, leaseRedis},
	{"get-then-del.sh", "release-in-steps", grade.Oversells, server.Redis, leaseRedis},
	{"setnx-expire.sh", "crash-between-commands", grade.Blocks, server.Redis, leaseRedis},
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
		t.Run(s.name, func(t *testing.T) {
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
			if s.name == "del.sh" && !strings.HasPrefix(r.Why, "A's late release (DEL ") {
				t.Errorf("the reason does not name the command: %s", r.Why)
			}
			twin, kind, lease := cmp.Or(s.twin, fixed+s.name), s.server, time.Second
			if twin == zkFixed {
				kind = server.ZooKeeper
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
	if err != nil || len(files) < len(broken) {
		t.Fatalf("%v: %v", files, err)
	}
	toStart := []string{"LeaseRedis.java", "lease-redis", "lease-redis.sh", "lease_redis.py"}
	for _, file := range files {
		name := filepath.Base(file)
		i := slices.IndexFunc(broken, func(s starter) bool { return s.name == name })
		if i < 0 || slices.Contains(toStart, name) {
			if !slices.Contains(toStart, name) {
				t.Errorf("%s is not in the table of broken starters", name)
			}
			continue
		}
		if !strings.HasSuffix(name, ".sh") {
			file += "/main.go"
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "--only "+broken[i].scenario+" ") {
			t.Errorf("%s does not say that it fails in %s", name, broken[i].scenario)
		}
	}
}

// A lock to start from works in every language that is installed. A hundred wait for the one in Java, whose processes
// start slowly.
func TestLocksToStartFrom(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: make verify")
	}
	crowd := []string{"thirty-at-once", "late-release", "lost-reply"}
	for lock, scenarios := range map[string][]string{
		"lease-redis": crowd, "lease_redis.py": crowd, "LeaseRedis.java": {"late-release", "hundred-waiters"},
	} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			for _, scenario := range scenarios {
				r := graded(t, starters+lock, server.Redis, scenario, time.Second, patience)
				if r.Grade != grade.Holds {
					t.Errorf("%s in %s: %s, want %s: %s", lock, scenario, r.Grade, grade.Holds, r.Why)
				}
			}
		})
	}
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
		if out, err := exec.Command("go", "build", "-o", program, "./"+lock).CombinedOutput(); err != nil {
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
	script, err := os.ReadFile(leaseRedis)
	if err != nil {
		t.Fatal(err)
	}
	const lesson = "../../docs/lessons/12-grade-your-own-lock"
	for _, page := range []string{lesson + ".md", lesson + ".zh-CN.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "```bash\n"+string(script)+"```") {
			t.Errorf("%s has another lease-redis.sh", page)
		}
		for _, s := range broken {
			row := regexp.MustCompile(`(?m)^\| \[` + regexp.QuoteMeta(s.name) + "\\].*\\| `" + s.scenario + "`")
			if !row.Match(text) {
				t.Errorf("%s has no row that says that %s fails in %s", page, s.name, s.scenario)
			}
		}
		for _, s := range grade.Scenarios() {
			read := strings.TrimPrefix(s.Read, "docs/lessons/")
			if strings.Contains(page, "zh-CN") {
				read = strings.Replace(read, ".md", ".zh-CN.md", 1)
			}
			row := regexp.MustCompile("(?m)^\\| `" + s.Name + "` .*" + regexp.QuoteMeta(read))
			if !row.Match(text) {
				t.Errorf("%s has no row of %s with %s", page, s.Name, read)
			}
			if _, err := os.Stat("../../" + s.Read); err != nil {
				t.Error(err)
			}
		}
	}
}

package zklock

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

// Curator's InterProcessMutex and ours on one path exclude each other: together they count in a file and lose
// nothing. It needs a JDK and Curator's jars (deploy/deps tests), or a folder that has them in $CURATOR_JARS. CI has
// them.
func TestExcludesCurator(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	home := os.Getenv("CURATOR_JARS")
	if home == "" {
		home = "/usr/share/java"
	}
	jars, _ := filepath.Glob(filepath.Join(home, "curator-*.jar"))
	if _, err := exec.LookPath("javac"); err != nil || len(jars) < 3 {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatal("needs a JDK and Curator's jars: run deploy/deps tests")
		}
		t.Skip("needs a JDK and Curator's jars: apt-get install default-jdk-headless libcurator-recipes-java")
	}
	for _, jar := range []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "guava", "netty-all", "failureaccess",
	} {
		jars = append(jars, filepath.Join("/usr/share/java", jar+".jar"))
	}
	host := Servers.ZooKeeper(t)
	q := []*Sequential{NewSequential(dial(t, host)), NewSequential(dial(t, host))}
	const threads, rounds = 5, 40
	file := filepath.Join(t.TempDir(), "count")
	must(t, os.WriteFile(file, []byte("0"), 0o600))
	locktest.Release(t, acquire(t, q[0])) // makes the folder
	java := exec.CommandContext(t.Context(), "java", "-cp", strings.Join(jars, ":"), "testdata/Contend.java",
		host, rootOf(t)+"/"+key, file, strconv.Itoa(threads), strconv.Itoa(rounds))
	count := func() int {
		text, _ := os.ReadFile(file)
		n, _ := strconv.Atoi(string(text))
		return n
	}
	var ours sync.WaitGroup
	before := lock.Fence(0)
	for i := range threads {
		ours.Go(func() {
			// It has to be compiled first, while the other packages test, too.
			locktest.Eventually(t, "Curator's first count", func() bool { return count() > 0 })
			for range rounds {
				lease := acquire(t, q[i%len(q)])
				err := os.WriteFile(file, []byte(strconv.Itoa(count()+1)), 0o600)
				if err != nil || lease.Fence() <= before {
					t.Errorf("fence %d after %d, %v", lease.Fence(), before, err)
				}
				before = lease.Fence() // guarded by the lock; -race checks that
				locktest.Release(t, lease)
			}
		})
	}
	if out, err := java.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	ours.Wait()
	if n := count(); n != 2*threads*rounds {
		t.Errorf("counted to %d, want %d", n, 2*threads*rounds)
	}
}

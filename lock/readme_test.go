package lock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/mysqllock"
	"example.com/stock/lock/redislock"
	"example.com/stock/lock/zklock"
)

// The table of the README is what the locks promise. The columns of round trips and of waiting are facts of their
// algorithms, which no promise has.
func TestReadmeSaysWhatTheLocksPromise(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, l := range []struct {
		name    string
		trips   int
		waiters string
		promise driver.Promise
	}{
		{"redislock.Watchdog", 2, "are woken", new(redislock.Watchdog).Promise()},
		{"redislock.SetNX", 2, "poll", new(redislock.SetNX).Promise()},
		{"redislock.Redlock", 2, "poll", new(redislock.Redlock).Promise()},
		{"zklock.Sequential", 2, "are woken", new(zklock.Sequential).Promise()},
		{"zklock.Ephemeral", 2, "are woken", new(zklock.Ephemeral).Promise()},
		{"mysqllock.Table", 2, "poll", new(mysqllock.Table).Promise()},
		{"mysqllock.GetLock", 3, "are woken", new(mysqllock.GetLock).Promise()},
		{"mysqllock.ForUpdate", 4, "are woken", new(mysqllock.ForUpdate).Promise()},
	} {
		yes := map[bool]string{true: "yes", false: "–"}
		fmt.Fprintf(&table, "| `%s` | %d | %s | %s | %s | %s | within %v |\n", l.name, l.trips, l.waiters,
			yes[l.promise.Fair], yes[l.promise.Fenced], yes[l.promise.SignalsLoss], l.promise.FreedAfterCrash)
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("README.md lacks the table\n%s", table.String())
	}
}

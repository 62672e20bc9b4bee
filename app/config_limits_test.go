package app

import (
	"strings"
	"testing"
	"time"
)

// The least and the most of each setting are accepted, and what is next to them is not.
func TestLimitsOfSettingsAreExact(t *testing.T) {
	bare(t)
	for _, row := range []struct{ key, below, least, most, above string }{
		{"wait", "-1ns", "0s", "1m", "1m0.000000001s"},
		{"work", "9.999999ms", "10ms", "1m", "1m0.000000001s"},
		{"drain", "-1ns", "0s", "5m", "5m0.000000001s"},
		{"stop", "-1ns", "0s", "5m", "5m0.000000001s"},
		{"redis.timeout", "9.999999ms", "10ms", "1m", "1m0.000000001s"},
		{"redlock.lease", "999.999999ms", "1s", "1h", "1h0m0.000000001s"},
		{"redlock.node_timeout", "999999ns", "1ms", "10s", "10.000000001s"},
		{"zookeeper.session_timeout", "499.999999ms", "500ms", "5m", "5m0.000000001s"},
		{"zookeeper.connect_timeout", "9.999999ms", "10ms", "1m", "1m0.000000001s"},
		{"lock.setnx_lease", "99.999999ms", "100ms", "1h", "1h0m0.000000001s"},
		{"lock.watchdog_lease", "99.999999ms", "100ms", "1h", "1h0m0.000000001s"},
		{"lock.lease_time", "99.999999ms", "100ms", "1h", "1h0m0.000000001s"},
		{"lock.lease_time", "1ns", "0s", "0s", "-1ns"}, // 0: none
		{"lock.max_hold", "999.999999ms", "1s", "24h", "24h0m0.000000001s"},
		{"lock.segments", "0", "1", "64", "65"},
		{"merge.limit", "0", "1", "1000", "1001"},
		{"lock.replica_timeout", "999999ns", "1ms", "1m", "1m0.000000001s"},
		{"lock.replicas", "-1", "0", "1", ""},
		{"redis.pool_size", "0", "1", "", ""},
		{"redis.queue", "0", "1", "", ""},
		{"redis.db", "-1", "0", "", ""},
		{"mysql.queue", "0", "1", "", ""},
		{"limits.waiting", "0", "1", "", ""},
		{"merge.queue", "0", "1", "", ""},
		{"mysql.pool_size", "0", "1", "", ""},
		{"mysql.lock_keys", "-1", "0", "11", "12"},
		{"seed.quantity", "-1", "0", "1000000000", "1000000001"},
	} {
		flag := "--" + settingOf(t, row.key).flag() + "="
		for value, bound := range map[string]string{row.below: row.least, row.above: row.most} {
			if value == "" {
				continue
			}
			if d, err := time.ParseDuration(bound); err == nil && bound != "0" { // which is a number, too
				bound = d.String()
			}
			if _, err := configure(t, flag+value); err == nil {
				t.Errorf("%s: %s is accepted", row.key, value)
			} else if !strings.Contains(err.Error(), bound) {
				t.Errorf("%s: %s: %v does not name %s", row.key, value, err, bound)
			}
		}
		for _, value := range []string{row.least, row.most} {
			if value == "" {
				continue
			}
			if _, err := configure(t, flag+value); err != nil {
				t.Errorf("%s: %s: %v", row.key, value, err)
			}
		}
	}
	if _, err := configure(t, "--mysql-lock-pool-size=2"); err == nil || !strings.Contains(err.Error(), "at least 3") {
		t.Errorf("mysql.lock_pool_size: %v does not name 3", err)
	}
	for _, row := range []struct {
		good bool
		args []string
	}{
		{true, []string{"--mysql-lock-pool-size=3", "--mysql-lock-keys=1"}},
		{false, []string{"--mysql-lock-pool-size=3", "--mysql-lock-keys=2"}},
		{true, []string{"--mysql-lock-pool-size=4", "--mysql-lock-keys=1"}},
		{false, []string{"--mysql-lock-pool-size=4", "--mysql-lock-keys=2"}},
		{true, []string{"--mysql-lock-pool-size=5", "--mysql-lock-keys=2"}},
		{false, []string{"--mysql-lock-pool-size=2", "--mysql-lock-keys=0"}},
		{true, []string{"--lock-replicas=1", "--redis-timeout=2s", "--lock-replica-timeout=1.999999999s"}},
		{false, []string{"--lock-replicas=1", "--redis-timeout=2s", "--lock-replica-timeout=2s"}},
		{true, []string{"--lock-replicas=0", "--redis-timeout=2s", "--lock-replica-timeout=2s"}},
		{true, []string{"--redlock-addrs="}},
		{false, []string{"--redlock-addrs=a:1"}},
		{false, []string{"--redlock-addrs=a:1,b:1"}},
		{true, []string{"--redlock-addrs=a:1,b:1,c:1"}},
		{false, []string{"--redis-addrs=user@a:1"}},
		{false, []string{"--redlock-addrs=a:1,b:1,user@c:1"}},
		{false, []string{"--zookeeper-hosts=user@a:1"}},
		{true, []string{"--admin-addr="}},
		{false, []string{"--addr="}},
		{true, []string{"--seed-sku="}},
	} {
		if _, err := configure(t, row.args...); (err == nil) != row.good {
			t.Errorf("%q: %v", row.args, err)
		}
	}
}

// A lease that is as long as the work, or shorter, is doubtful.
func TestWhenALeaseIsDoubtful(t *testing.T) {
	bare(t)
	for _, row := range []struct {
		args []string
		want int
	}{
		{[]string{"--work=5s", "--lock-setnx-lease=5.000000001s"}, 0},
		{[]string{"--work=5s", "--lock-setnx-lease=5s"}, 1},
		{[]string{"--work=5s", "--lock-setnx-lease=4s"}, 1},
		{[]string{"--work=1s", "--lab", "--admin-token=a-token-that-is-long-enough"}, 0},
	} {
		c := mustConfigure(t, row.args...)
		if list := c.doubts(); len(list) != row.want {
			t.Errorf("%q: %q", row.args, list)
		}
	}
}

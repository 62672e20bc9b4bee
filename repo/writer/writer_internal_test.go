package writer

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	mine := rows{writer: "a", here: "a", fence: 3, beats: 7}
	others := rows{writer: "b", here: "a", fence: 3, beats: 7}
	seen := observation{3, 7, began}
	for _, row := range []struct {
		name  string
		r     rows
		s     observation
		after time.Duration
		want  action
		since time.Duration // after which the row is unchanged
	}{
		{"first look at another's", others, observation{}, time.Hour, nothing, time.Hour},
		{"another's, silent not long enough", others, seen, silence - 1, nothing, 0},
		{"another's, silent", others, seen, silence, replace, 0},
		{"another's, with a new count", others, observation{3, 6, began}, silence, nothing, silence},
		{"another's, with a new fence", others, observation{2, 7, began}, silence, nothing, silence},
		{"first look at its own", mine, observation{}, time.Hour, nothing, time.Hour},
		{"its own, counted a moment ago", mine, seen, beat - 1, nothing, 0},
		{"its own, not counted for a while", mine, seen, beat, count, 0},
		{"its own, silent", mine, seen, silence, count, 0},
	} {
		do, s := decide(row.r, row.s, began.Add(row.after))
		if do != row.want || s.since != began.Add(row.since) || s.fence != row.r.fence || s.beats != row.r.beats {
			t.Errorf("%s: %d, remembers %+v; want %d", row.name, do, s, row.want)
		}
	}
}

func TestEngine(t *testing.T) {
	t.Parallel()
	with := func(pairs ...string) map[string]string {
		told := map[string]string{"version": "10.11.19-MariaDB", "hostname": "db", "port": "3306", "read_only": "OFF"}
		for i := 0; i < len(pairs); i += 2 {
			told[pairs[i]] = pairs[i+1]
		}
		return told
	}
	for _, row := range []struct {
		told    map[string]string
		want    string
		several bool
	}{
		{with(), "10.11.19-MariaDB", false},
		{with("read_only", "1"), "10.11.19-MariaDB, read-only", false},
		{with("wsrep_on", "OFF", "wsrep_provider", "none"), "10.11.19-MariaDB", false},
		{with("wsrep_on", "ON", "wsrep_provider", "none"), "10.11.19-MariaDB", false},
		{with("wsrep_on", "ON"), "10.11.19-MariaDB", false},
		{
			with("wsrep_on", "ON", "wsrep_provider", "/usr/lib/galera/libgalera_smm.so", "wsrep_cluster_size", "1"),
			"10.11.19-MariaDB, node db:3306 of a Galera cluster of 1", true,
		},
		{
			with("version", "8.4.3", "group_replication_group_name", "6f2d", "group_replication_single_primary_mode",
				"ON"),
			"8.4.3, node db:3306 of a Group Replication cluster", false,
		},
		{
			with("version", "8.4.3", "group_replication_group_name", "6f2d", "group_replication_single_primary_mode",
				"OFF"),
			"8.4.3, node db:3306 of a Group Replication cluster", true,
		},
		{with("version", "8.4.3", "group_replication_group_name", ""), "8.4.3", false},
		{with("version", "8.0.11-TiDB-v8.5.1"), "8.0.11-TiDB-v8.5.1", false},
	} {
		if e := engineOf(row.told); e.String() != row.want || e.Several != row.several {
			t.Errorf("%v: %s, several writers %t; want %s, %t", row.told, e, e.Several, row.want, row.several)
		}
	}
}

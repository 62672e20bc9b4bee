package repo

import "testing"

func TestEngineOf(t *testing.T) {
	galera := []string{"wsrep_on", "ON", "wsrep_provider", "/usr/lib/galera/libgalera_smm.so", "wsrep_cluster_size"}
	group := []string{"group_replication_group_name", "6f2d", "group_replication_single_primary_mode"}
	for _, row := range []struct {
		told []string
		want Engine
	}{
		{nil, Engine{About: "10.11"}},
		{[]string{"read_only", "1"}, Engine{About: "10.11, read-only"}},
		{[]string{"wsrep_on", "ON", "wsrep_provider", "none"}, Engine{About: "10.11"}},
		{[]string{"wsrep_on", "ON"}, Engine{About: "10.11"}},
		{append(galera, "1"), Engine{About: "10.11, node db:3306 of a Galera cluster of 1", Galera: true}},
		{
			append(galera, "2"),
			Engine{About: "10.11, node db:3306 of a Galera cluster of 2", Galera: true, Several: true},
		},
		{append(group, "ON"), Engine{About: "10.11, node db:3306 of a Group Replication cluster"}},
		{append(group, "OFF"), Engine{About: "10.11, node db:3306 of a Group Replication cluster", Several: true}},
		{[]string{"group_replication_group_name", ""}, Engine{About: "10.11"}},
	} {
		told := map[string]string{"version": "10.11", "hostname": "db", "port": "3306", "read_only": "OFF"}
		for i := 0; i < len(row.told); i += 2 {
			told[row.told[i]] = row.told[i+1]
		}
		if e := engineOf(told); e != row.want {
			t.Errorf("%v: %+v, want %+v", row.told, e, row.want)
		}
	}
}

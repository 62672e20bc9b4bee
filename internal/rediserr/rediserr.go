// Package rediserr classifies the error replies of Redis for code that keeps stock or locks there.
package rediserr

import (
	"errors"
	"strings"
)

// An Outcome is what an error reply proves about the command or script that got it.
type Outcome int

const (
	// Refused proves that nothing was written. It also holds for a reply that is not in the table, because Redis checks
	// a command before it runs it, and the scripts of this project fail before their first write.
	Refused Outcome = iota
	// Moving proves the same. The cluster is moving the slot, so the command may be sent again.
	Moving
	// Unknown proves nothing: a script may have made none, some or all of its writes.
	Unknown
)

// A Meaning is what an error reply means.
type Meaning struct {
	Word    string // a part of the reply's text that identifies it
	Outcome Outcome
	Reason  string // why the server cannot serve, a code of lock.DownError
	Full    bool   // the server has no room for more data
	Why     string // the reason for Outcome
}

// Meanings returns the table of all meanings. The first row whose Word is in a reply applies.
func Meanings() []Meaning {
	const (
		moving  = "moving-slots"
		before  = "Redis checks it before it runs a command, and in a script before its first write"
		command = "Redis checks it before it runs a command"
		cluster = "the node does not run what belongs to other nodes"
		script  = "Redis checks each command of a script, and does not undo those before the refused one"
		rights  = "no-permission"
	)
	return []Meaning{
		{"executing the script", Unknown, rights, false, script}, // until 7.0
		{"ACL failure in script", Unknown, rights, false, script},
		{
			"READONLY", Refused, "read-only-replica",
			false, before,
		},
		{"OOM", Refused, "out-of-memory", true, before},
		{"MISCONF", Refused, "cannot-save", false, before},
		{"NOREPLICAS", Refused, "too-few-replicas", false, before},
		{"LOADING", Refused, "loading", false, command},
		{"MASTERDOWN", Refused, "lost-its-master", false, command},
		{"CROSSSLOT", Refused, "no-orders", false, cluster},
		{"Hash slot not served", Refused, "slot-not-served", false, cluster},
		{"CLUSTERDOWN", Refused, "cluster-down", false, cluster},
		{"TRYAGAIN ", Moving, moving, false, cluster},
		{"ASK ", Moving, moving, false, cluster},
		{"MOVED ", Moving, moving, false, cluster},
		{
			"killed by user", Refused, "script-ended", false,
			"Redis kills only a script that has written nothing; for others it answers UNKILLABLE to the operator",
		},
		{"BUSY ", Refused, "busy-with-a-script", false, "Redis refuses it while another client's script runs"},
		{"NOAUTH", Refused, "wants-a-password", false, command},
		{"WRONGPASS", Refused, "wrong-password", false, command},
		{"NOPERM", Refused, rights, false, command},
		{"max number of clients", Refused, "too-many-clients", false, command},
	}
}

// Of returns the meaning of an error, and whether the table has it. An error that is not an error reply is not in the
// table, and does not show what the server has done.
func Of(err error) (Meaning, bool) {
	var answered interface { // redis.Error
		error
		RedisError()
	}
	if !errors.As(err, &answered) {
		return Meaning{}, false
	}
	// Word may be anywhere: Redis before 7 and embedded servers put "ERR Error running script" in front of the text.
	for _, m := range Meanings() {
		if strings.Contains(err.Error(), m.Word) {
			return m, true
		}
	}
	return Meaning{}, false
}

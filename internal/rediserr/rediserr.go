// Package rediserr tells what the error replies of Redis mean to code that keeps stock or locks there.
package rediserr

import (
	"errors"
	"strings"
)

// An Outcome is what an error reply proves of the command or script that got it.
type Outcome int

const (
	// Refused proves that nothing was written. A reply that is not in the table is Refused, too: Redis checks a command
	// before it runs it, and the scripts of this project fail before their first write.
	Refused Outcome = iota
	// Moving is Refused by a cluster that is moving the slot: the command may be sent again.
	Moving
	// Unknown proves nothing: a script may have written some of what it should, or all.
	Unknown
)

// A Meaning is what an error reply means.
type Meaning struct {
	Word    string // by which the reply is known
	Outcome Outcome
	Reason  string // why the server cannot serve, a code of lock.DownError
	Full    bool   // the server has no room for more data
	Why     string // why Outcome is what it is
}

// Meanings returns the table of all decisions. The first row whose Word is in a reply counts.
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
			"Redis ends only a script that has written nothing; of another it answers the operator UNKILLABLE",
		},
		{"BUSY ", Refused, "busy-with-a-script", false, "of the command that comes while another's script runs"},
		{"NOAUTH", Refused, "wants-a-password", false, command},
		{"WRONGPASS", Refused, "wrong-password", false, command},
		{"NOPERM", Refused, rights, false, command},
		{"max number of clients", Refused, "too-many-clients", false, command},
	}
}

// Of returns the meaning of an error, and whether it is in the table. One that is no error reply is not: what the
// server did is then not known from it.
func Of(err error) (Meaning, bool) {
	var answered interface { // redis.Error
		error
		RedisError()
	}
	if !errors.As(err, &answered) {
		return Meaning{}, false
	}
	// Not only the first word of the text: Redis before 7 and embedded ones put "ERR Error running script" in front.
	for _, m := range Meanings() {
		if strings.Contains(err.Error(), m.Word) {
			return m, true
		}
	}
	return Meaning{}, false
}

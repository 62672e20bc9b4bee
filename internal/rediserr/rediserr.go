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
	Reason  string // why the server cannot serve, in words without names and addresses
	Full    bool   // the server has no room for more data
	Why     string // why Outcome is what it is
}

// Meanings returns the table of all decisions. The first row whose Word is in a reply counts.
func Meanings() []Meaning {
	const (
		moving  = "its cluster is moving slots"
		before  = "Redis checks it before it runs a command, and in a script before its first write"
		command = "Redis checks it before it runs a command"
		cluster = "the node does not run what belongs to other nodes"
		script  = "Redis checks each command of a script, and does not undo those before the refused one"
		rights  = "the user lacks a permission"
	)
	return []Meaning{
		{"executing the script", Unknown, rights, false, script}, // until 7.0
		{"ACL failure in script", Unknown, rights, false, script},
		{
			"READONLY", Refused, "it is a read-only replica; point redis.addrs at the master, or use redis.master_name",
			false, before,
		},
		{"OOM", Refused, "it is out of memory: raise maxmemory", true, before},
		{"MISCONF", Refused, "it cannot save to disk", false, before},
		{"NOREPLICAS", Refused, "it has fewer replicas than min-replicas-to-write", false, before},
		{"LOADING", Refused, "it is still loading its data", false, command},
		{"MASTERDOWN", Refused, "it is a replica that has lost its master", false, command},
		{"CROSSSLOT", Refused, "it is a node of a cluster, which cannot keep orders", false, cluster},
		{"Hash slot not served", Refused, "its cluster does not serve the slot of this SKU", false, cluster},
		{"CLUSTERDOWN", Refused, "its cluster is down", false, cluster},
		{"TRYAGAIN ", Moving, moving, false, cluster},
		{"ASK ", Moving, moving, false, cluster},
		{"MOVED ", Moving, moving, false, cluster},
		{
			"killed by user", Refused, "an operator ended the script", false,
			"Redis ends only a script that has written nothing; of another it answers the operator UNKILLABLE",
		},
		{"BUSY ", Refused, "it is busy with a script", false, "of the command that comes while another's script runs"},
		{"NOAUTH", Refused, "it wants a password", false, command},
		{"WRONGPASS", Refused, "it refused the password", false, command},
		{"NOPERM", Refused, rights, false, command},
		{"max number of clients", Refused, "it has too many clients: raise maxclients", false, command},
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

// Package rediserr classifies the error replies of Redis for code that keeps stock or locks there.
package rediserr

import (
	"errors"
	"regexp"
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
	Reason  string // why the server cannot serve, a code of driver.DownError
	Full    bool   // the server has no room for more data
	Why     string // the reason for Outcome
}

const noPermission = "no-permission" // has a value, see Values

// Meanings returns the table of all meanings. The first row whose Word is in a reply applies.
func Meanings() []Meaning {
	const (
		moving  = "moving-slots"
		before  = "Redis checks it before it runs a command, and in a script before its first write"
		command = "Redis checks it before it runs a command"
		cluster = "the node does not run what belongs to other nodes"
		script  = "the scripts of this project ask for every right before their first write; see may.lua"
		old     = "Redis before 7 cannot be asked for a right, and does not undo what a script wrote before the refusal"
	)
	return []Meaning{
		{"ERR The user executing the script", Refused, noPermission, false, script}, // 7.0
		{"ACL failure in script", Refused, noPermission, false, script},             // since 7.2
		{"executing the script", Unknown, noPermission, false, old},
		{
			"READONLY", Refused, "read-only-replica",
			false, before,
		},
		{"OOM", Refused, "out-of-memory", true, before},
		{"MISCONF", Refused, "cannot-save", false, before},
		{"NOREPLICAS", Refused, "too-few-replicas", false, before},
		{"LOADING", Refused, "loading", false, command},
		{"MASTERDOWN", Refused, "lost-its-master", false, command},
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
		{"NOPERM", Refused, noPermission, false, command},
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

// Values returns the values of the Reason of an error: of a missing right, the right in the syntax of ACL SETUSER.
func Values(err error) []any {
	if m, _ := Of(err); m.Denied() {
		return []any{"right", right(err.Error())}
	}
	return nil
}

// Denied reports whether the server refuses until a person grants a right.
func (m Meaning) Denied() bool { return m.Reason == noPermission }

var refusedCommand = regexp.MustCompile(`'([^']+)' command`)

// right returns the right that a refusal names: +command, &channel or ~key. Redis does not say which channel or key,
// and before 7.2 it does not say which command of a script.
func right(refusal string) string {
	var missing []string
	if named := refusedCommand.FindStringSubmatch(refusal); named != nil {
		missing = append(missing, "+"+named[1])
	}
	switch {
	case strings.Contains(refusal, "channel"):
		missing = append(missing, "&channel")
	case len(missing) > 0:
	case strings.Contains(refusal, "key"):
		missing = append(missing, "~key")
	default:
		missing = append(missing, "+command")
	}
	return strings.Join(missing, " ")
}

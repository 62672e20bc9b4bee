package rediserr_test

import (
	"errors"
	"fmt"
	"testing"

	"example.com/stock/lock/driver/rediserr"
)

// said is a reply of a server.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

// Replies as Redis 6 to 7.2 send them.
func TestOf(t *testing.T) {
	for text, want := range map[string]struct {
		outcome rediserr.Outcome
		full    bool
	}{
		"OOM command not allowed when used memory > 'maxmemory'.":                         {rediserr.Refused, true},
		"ERR Error running script (call to f_1): @user_script: 1: -OOM command not ...":   {rediserr.Refused, true},
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable":    {rediserr.Refused, false},
		"READONLY You can't write against a read only replica.":                           {rediserr.Refused, false},
		"NOREPLICAS Not enough good replicas to write.":                                   {rediserr.Refused, false},
		"LOADING Redis is loading the dataset in memory":                                  {rediserr.Refused, false},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'": {rediserr.Refused, false},
		"BUSY Redis is busy running a script.":                                            {rediserr.Refused, false},
		"ERR Error running script: Script killed by user with SCRIPT KILL.":               {rediserr.Refused, false},
		"CLUSTERDOWN Hash slot not served":                                                {rediserr.Refused, false},
		"NOAUTH Authentication required.":                                                 {rediserr.Refused, false},
		"NOPERM this user has no permissions to run the 'evalsha' command":                {rediserr.Refused, false},
		"TRYAGAIN Multiple keys request during rehashing of slot":                         {rediserr.Moving, false},
		"MOVED 1 127.0.0.1:7001":                                                          {rediserr.Moving, false},
		"ASK 1 127.0.0.1:7001":                                                            {rediserr.Moving, false},
		"ERR The user executing the script can't run this command or subcommand script:":  {rediserr.Refused, false},
		"ERR ACL failure in script: User u has no permissions to run the 'zadd' command":  {rediserr.Refused, false},
		"ERR Error running script: ... the user executing the script can't run this":      {rediserr.Unknown, false},
	} {
		got, known := rediserr.Of(fmt.Errorf("deduct: %w", said(text)))
		if !known || got.Outcome != want.outcome || got.Full != want.full || got.Reason == "" || got.Why == "" {
			t.Errorf("%q: %+v, known %t; want %+v", text, got, known, want)
		}
	}
	for _, err := range []error{nil, errors.New("OOM"), said("redis: nil"), said("ERR syntax error")} {
		if m, known := rediserr.Of(err); known || m.Outcome != rediserr.Refused {
			t.Errorf("%v is known as %+v", err, m)
		}
	}
}

package redislock

import (
	"errors"
	"strings"
	"testing"

	"example.com/stock/lock"
)

// An answered error is an error reply of Redis.
type answered string

func (a answered) Error() string { return string(a) }
func (answered) RedisError()     {}

// Whatever Redis refuses is an outage, with the reason if it is a known one, and else with what Redis said.
func TestARefusalKeepsItsReason(t *testing.T) {
	known, is := errors.AsType[*lock.DownError](refusal("lock:{a}", answered("LOADING Redis is loading the dataset")))
	if !is || known.Reason != "loading" {
		t.Errorf("LOADING: %v", known)
	}
	if err := refusal("lock:{a}", answered("ERR something new")); !errors.Is(err, lock.ErrDown) ||
		!strings.Contains(err.Error(), "something new") {
		t.Errorf("an unknown refusal: %v, want what Redis said", err)
	}
	err := refusal("lock:{a}", answered("WRONGTYPE Operation against a key"))
	if errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "lock:{a}") {
		t.Errorf("a key that is no lock: %v, want its name and no outage", err)
	}
}

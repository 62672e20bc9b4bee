package relay

import (
	"errors"
	"testing"
)

// A redisReply is an error that Redis has answered.
type redisReply string

func (r redisReply) Error() string { return string(r) }
func (redisReply) RedisError()     {}

// Only what Redis answers about the event is the event's fault. go-redis' HasErrorPrefix cannot tell: it takes "ERR "
// off before it compares.
func TestStreamFault(t *testing.T) {
	for err, unavailable := range map[error]bool{
		redisReply("ERR Invalid stream ID specified as stream command argument"):   false,
		redisReply("WRONGTYPE Operation against a key holding the wrong kind"):     false,
		redisReply("LOADING Redis is loading the dataset in memory"):               true,
		redisReply("OOM command not allowed when used memory > 'maxmemory'"):       true,
		errors.New("ERR as a proxy between may say, which is no reply of Redis's"): true,
	} {
		if got := errors.Is(streamFault(err), ErrUnavailable); got != unavailable {
			t.Errorf("%v: unavailable %v, want %v", err, got, unavailable)
		}
	}
}

package redislock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock/redislock/internal/request"
)

// A contender holds a key of a Redlock if it has it on three of five nodes, for as long as it will have that majority.
// Rows say what each node has, with the seconds for which it lasts.
func TestTheMajorityHolds(t *testing.T) {
	r := &Redlock{nodes: make([]*node, 5), addrs: make([]string, 5), quorum: 3}
	for nodes, want := range map[string]string{
		"a10 a20 a30 a40 a50": "a 30s", "- a70 - a60 a50": "a 50s", "b90 a70 b90 a60 a50": "a 50s",
		"b90 a90 b90 a90 -": "", "a90 a90 - - -": "", "a90 a80 a70 - down": "a 1m10s", "a90 - - - down": "",
		"a90 a90 - - down": "majority-not-known", "a90 a90 down down down": "quorum (good=2, all=5, must=3",
	} {
		found, got := make([]request.Found, 5), ""
		for i, text := range strings.Fields(nodes) {
			if text == "down" {
				found[i].Err = context.DeadlineExceeded
			} else if seconds, err := strconv.Atoi(text[1:]); err == nil {
				found[i] = request.Found{Value: "1 " + text[:1], TTL: time.Duration(seconds) * time.Second}
			}
		}
		switch state, err := r.majority(found); {
		case err != nil:
			got = err.Error()
		case state.Holder != nil:
			got = fmt.Sprint(state.Holder.Who, " ", state.Holder.Remaining)
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", nodes, got, want)
		}
	}
}

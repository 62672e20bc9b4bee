package servertest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Rights is a hook for a client of Redis. It tries each script that the client sends for users who each lack one right
// that the script needs: one of its commands, or its channels. A script that is refused must have written nothing. Then
// Rights sends the script for the client as if nothing had happened.
type Rights struct {
	t               testing.TB
	admin, deprived *redis.Client

	mu      sync.Mutex
	sources map[string]string          // by digest
	refused map[string]map[string]bool // by source: the rules by which it was refused
	tried   map[string]int             // by source: how often
}

// NewRights returns a Rights for the server at addr, which must have no other user. Add it to a client with AddHook.
func NewRights(t testing.TB, addr string) *Rights {
	r := &Rights{
		t: t, sources: make(map[string]string), refused: make(map[string]map[string]bool),
		tried:    make(map[string]int),
		admin:    redis.NewClient(&redis.Options{Addr: addr}),
		deprived: redis.NewClient(&redis.Options{Addr: addr, Username: "deprived", Password: "pw", MaxRetries: -1}),
	}
	t.Cleanup(func() {
		_ = r.deprived.Close()
		_ = r.admin.Close()
	})
	return r
}

// Check fails the test unless each of the scripts, given by parts of their sources, was sent and was refused without
// each of its rights.
func (r *Rights) Check(parts ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range parts {
		refused, sent := make(map[string]bool), false
		for source, found := range r.refused {
			if strings.Contains(source, part) {
				sent = true
				maps.Copy(refused, found)
			}
		}
		rules := slices.DeleteFunc(rulesOf(part), func(rule string) bool { return refused[rule] })
		if !sent || len(rules) > 0 {
			name, _, _ := strings.Cut(part, "\n")
			r.t.Errorf("%s\nwas sent: %t; was never refused with %q", name, sent, rules)
		}
	}
}

func (r *Rights) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *Rights) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *Rights) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		name, args := c.Name(), c.Args()
		if name != "eval" && name != "evalsha" {
			return next(ctx, c) // also of a new connection, while its script waits
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		source := args[1].(string)
		if name == "eval" {
			sum := sha1.Sum([]byte(source))
			r.sources[hex.EncodeToString(sum[:])] = source
		} else {
			source = r.sources[source]
		}
		if source != "" {
			r.try(source, args[2:])
		}
		return next(ctx, c)
	}
}

var (
	called    = regexp.MustCompile(`redis\.call\('([A-Z]+)'`)
	published = regexp.MustCompile(`may\('PUBLISH'`)
)

// rulesOf returns the ACL rules that each take away one right that the script needs.
func rulesOf(source string) []string {
	found := make(map[string]bool)
	for _, match := range called.FindAllStringSubmatch(source, -1) {
		found["-"+match[1]] = true
	}
	if published.MatchString(source) {
		found["-PUBLISH"], found["resetchannels"] = true, true
	}
	return slices.Sorted(maps.Keys(found))
}

// try runs a script once for each user, and puts back what was there before. With go test -short it leaves out, after
// twenty calls, the rights without which the script was refused already.
func (r *Rights) try(source string, args []any) {
	r.tried[source]++
	ctx := context.Background()
	if r.refused[source] == nil {
		r.refused[source] = make(map[string]bool)
	}
	for _, rule := range rulesOf(source) {
		if testing.Short() && r.tried[source] > 20 && r.refused[source][rule] {
			continue
		}
		before := r.keyspace(ctx)
		if err := r.admin.Do(
			ctx, "ACL", "SETUSER", "deprived", "reset", "on", ">pw", "~*", "&*", "+@all", rule,
		).Err(); err != nil {
			r.t.Errorf("%s: %v", rule, err)
			continue
		}
		err := r.deprived.Do(ctx, append([]any{"eval", source}, args...)...).Err()
		after := r.keyspace(ctx)
		now := time.Duration(r.admin.Time(ctx).Val().UnixNano())
		maps.DeleteFunc(before, func(key string, is content) bool { // what has run out meanwhile was not changed
			_, still := after[key]
			return !still && is.until > 0 && is.until <= now
		})
		denied := redis.HasErrorPrefix(err, "NOPERM") ||
			err != nil && strings.Contains(err.Error(), "executing the script")
		if denied {
			r.refused[source][rule] = true
		}
		if maps.Equal(before, after) {
			continue
		}
		if err != nil && err != redis.Nil {
			name, _, _ := strings.Cut(source[strings.LastIndex(source, "-- KEYS[1]")+1:], "\n")
			r.t.Errorf("%s ... %v for a user with %s: %v, but it has changed %v into %v",
				name, args, rule, err, before, after)
		}
		r.restore(ctx, before)
	}
}

// A content is a key's value, as Redis dumps it, and the time at which it ends.
type content struct {
	value string
	until time.Duration
}

func (r *Rights) keyspace(ctx context.Context) map[string]content {
	found := make(map[string]content)
	for _, key := range r.admin.Keys(ctx, "*").Val() {
		value, err := r.admin.Dump(ctx, key).Result()
		if err == redis.Nil {
			continue // it has just run out
		}
		found[key] = content{value, r.admin.PExpireTime(ctx, key).Val()}
	}
	return found
}

func (r *Rights) restore(ctx context.Context, keys map[string]content) {
	if err := r.admin.FlushAll(ctx).Err(); err != nil {
		r.t.Error(err)
	}
	for key, is := range keys {
		if err := r.admin.Do(
			ctx, "RESTORE", key, fmt.Sprint(max(is.until, 0).Milliseconds()), is.value, "ABSTTL",
		).Err(); err != nil {
			r.t.Errorf("put back %s: %v", key, err)
		}
	}
}

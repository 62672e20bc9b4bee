// Package pureredis runs Lua scripts as Redis does, but as a pure function: its input is the keys and a script, its
// result the new keys, the reply and the messages. So a model of a lock can run the lock's real scripts, millions of
// times, from any state.
//
// The scripts run in miniredis (https://github.com/alicebob/miniredis), which interprets Lua and the commands. Its
// clock always shows Epoch: a model stores times in its keys relative to Epoch.
package pureredis

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Epoch returns the time that every script reads.
func Epoch() time.Time { return time.UnixMilli(1_800_000_000_000) }

// A Key is a Redis key and its value: one of Text, List, Hash and Sorted.
type Key struct {
	Name   string
	Text   string
	List   []string
	Hash   []string // fields and values in turn, sorted by field
	Sorted []string // members and scores in turn, sorted by member
	TTL    time.Duration
}

// A Message is what a script published.
type Message struct{ Channel, Text string }

// An Answer is what a script did.
type Answer struct {
	Keys     []Key // all keys after the script, sorted by name
	Reply    any   // string, int64, nil or []any of these
	Messages []Message
	Err      error // an error reply
}

// A Redis runs scripts, and caches their answers by script and input. It is not safe for concurrent use.
type Redis struct {
	mini     *miniredis.Miniredis
	messages []Message
	answers  map[string]map[string]Answer // by script and input
	Runs     int                          // number of scripts that were run, not answered from the cache
}

// New starts a Redis. Close it.
func New() (*Redis, error) {
	r := &Redis{mini: miniredis.NewMiniRedis(), answers: make(map[string]map[string]Answer)}
	if err := r.mini.Start(); err != nil {
		return nil, err
	}
	r.mini.SetTime(Epoch())
	r.mini.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if command != "PUBLISH" {
			return false
		}
		r.messages = append(r.messages, Message{args[0], args[1]})
		c.WriteInt(1)
		return true
	})
	return r, nil
}

func (r *Redis) Close() { r.mini.Close() }

// Eval runs a script on keys. The caller must not modify the answer.
func (r *Redis) Eval(before []Key, script string, keys []string, args ...string) Answer {
	b := make([]byte, 0, 512)
	add := func(words ...string) {
		b = append(strconv.AppendInt(b, int64(len(words)), 10), '/')
		for _, word := range words {
			b = append(strconv.AppendInt(b, int64(len(word)), 10), ':')
			b = append(b, word...)
		}
	}
	add(keys...)
	add(args...)
	for _, k := range before {
		add(k.Name, k.Text)
		add(k.List...)
		add(k.Hash...)
		add(k.Sorted...)
		b = strconv.AppendInt(b, int64(k.TTL), 10)
	}
	answers := r.answers[script]
	if answers == nil {
		answers = make(map[string]Answer)
		r.answers[script] = answers
	}
	question := string(b)
	answer, known := answers[question]
	if !known {
		answer = r.eval(before, script, keys, args)
		answers[question] = answer
	}
	return answer
}

func (r *Redis) eval(before []Key, script string, keys, args []string) (a Answer) {
	r.Runs++
	r.mini.FlushAll()
	for _, k := range before {
		if a.Err = r.put(k); a.Err != nil {
			return a
		}
	}
	r.messages = nil
	command := append([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys...)
	var out bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&out))
	r.mini.Server().Dispatch(peer, append(command, args...))
	peer.Flush()
	reply, err := server.ParseReply(bufio.NewReader(&out))
	a.Reply, a.Err, a.Messages = plain(reply), err, r.messages
	for _, name := range r.mini.Keys() {
		k, err := r.get(name)
		if err != nil {
			a.Err = err
		}
		a.Keys = append(a.Keys, k)
	}
	return a
}

// plain converts the types of miniredis to those of a Redis client.
func plain(reply any) any {
	switch reply := reply.(type) {
	case []any:
		list := make([]any, len(reply))
		for i, element := range reply {
			list[i] = plain(element)
		}
		return list
	case []byte:
		return string(reply)
	case server.Simple:
		return string(reply)
	case int:
		return int64(reply)
	}
	return reply
}

func (r *Redis) put(k Key) (err error) {
	switch {
	case k.List != nil:
		_, err = r.mini.Push(k.Name, k.List...)
	case k.Hash != nil:
		r.mini.HSet(k.Name, k.Hash...)
	case k.Sorted != nil:
		for pair := range slices.Chunk(k.Sorted, 2) {
			score, wrong := strconv.ParseFloat(pair[1], 64)
			if wrong != nil {
				return wrong
			}
			if _, err = r.mini.ZAdd(k.Name, score, pair[0]); err != nil {
				return err
			}
		}
	default:
		err = r.mini.Set(k.Name, k.Text)
	}
	if k.TTL > 0 {
		r.mini.SetTTL(k.Name, k.TTL)
	}
	return err
}

func (r *Redis) get(name string) (k Key, err error) {
	k = Key{Name: name, TTL: r.mini.TTL(name)}
	switch r.mini.Type(name) {
	case "string":
		k.Text, err = r.mini.Get(name)
	case "list":
		k.List, err = r.mini.List(name)
	case "hash":
		fields, wrong := r.mini.HKeys(name)
		slices.Sort(fields)
		for _, field := range fields {
			k.Hash = append(k.Hash, field, r.mini.HGet(name, field))
		}
		err = wrong
	case "zset":
		scores, wrong := r.mini.SortedSet(name)
		for member := range scores {
			k.Sorted = append(k.Sorted, member)
		}
		slices.Sort(k.Sorted)
		for i := len(k.Sorted) - 1; i >= 0; i-- {
			score := strconv.FormatFloat(scores[k.Sorted[i]], 'g', -1, 64)
			k.Sorted = slices.Insert(k.Sorted, i+1, score)
		}
		err = wrong
	default:
		err = fmt.Errorf("key %q is of a type that is not known here", name)
	}
	return k, err
}

// Find returns the key with that name, and whether it exists.
func Find(keys []Key, name string) (Key, bool) {
	for _, k := range keys {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

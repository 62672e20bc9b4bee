package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"example.com/stock/internal/words"
	"example.com/stock/internal/words/wordstest"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheCommandsHaveTheirTexts(t *testing.T) {
	t.Parallel()
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{
		"say": {}, "Say": {}, "tell": {}, "failure": {}, "listMigrations": {Bare: true},
	}, "server.", "group.", "usage.", "gone.",
		"foreign.integer", "foreign.natural", "foreign.number", "foreign.bool", "foreign.duration", "lock.evicted",
		"lock.evicted-after")
}

// No sentence stands in the code.
func TestTheCommandsSayNothingElse(t *testing.T) {
	t.Parallel()
	wordstest.Literals(t, wordstest.Allowed{Names: map[string]string{
		"Use":         "the form of a command line",
		"NewReplacer": "what cobra says, which is replaced",
	}, Literals: map[string]string{
		"stock lab soak --for %v --seed %d": "a command",
		"exit status %d: %v":                "main prints the error in it",
		playCommands:                        "commands",
		"go: downloading ":                  "what the go command says",
	}})
}

// What cobra and other packages say in English is said in Chinese, too.
func TestErrorsOfOthersAreInBothLanguages(t *testing.T) {
	t.Parallel()
	lost := func(cause error) error {
		lease, lose := lock.NewLease("a", lock.NoFence, func(context.Context) error { return nil })
		lose(cause)
		<-lease.Done()
		return lease.Err()
	}
	all := []error{
		context.Canceled, context.DeadlineExceeded, lock.ErrTaken, lock.ErrExpired,
		&lock.HeldError{Key: "a"},
		&lock.HeldError{Key: "a", Remaining: time.Second},
		&lock.HeldError{Key: "a", Holder: "b"},
		&lock.HeldError{Key: "a", Holder: "b", Remaining: time.Second},
		lost(&lock.ExpiredError{After: 2 * time.Second}),
	}
	for _, args := range []string{
		"sell", "laod", "demo now", "lock evict", "lock evct", "load --bogus", "load -xz", "load --stock",
		"load --stock=x", "load --stock=99999999999999999999", "load --seed=-1", "load --no-color=x",
		"load --timeout=5", "checkout --lost-replies=x", "load --=x",
		"lock run bogus key -- true", "demo --strategies bogus",
	} {
		_, _, err := run(t.Context(), strings.Fields(args)...)
		if _, err = ended(err); err == nil {
			t.Fatalf("%s: no error", args)
		}
		all = append(all, err)
	}
	for _, err := range all {
		en, zh := voice(words.English).message(err), voice(words.Chinese).message(err)
		han := func(r rune) bool { return unicode.Is(unicode.Han, r) }
		if strings.ContainsFunc(en, han) || !strings.ContainsFunc(zh, han) {
			t.Errorf("%q is said as %q and %q", err, en, zh)
		}
	}
	down := fmt.Errorf("x: %w", driver.NewDown("redis", "redis-not-configured"))
	if en := voice(words.English).message(down); en != "x: redis is down: it is not configured: set redis.url"+
		" (STOCK_REDIS_URL)" {
		t.Error(en)
	}
}

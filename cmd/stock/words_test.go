package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	}, "server.", "group.", "usage.", "foreign.gone-flag.", "foreign.expired-after", "foreign.too-long",
		"foreign.integer", "foreign.natural",
		"foreign.number", "foreign.bool", "foreign.range", "lock.evicted",
		"lock.evicted-after")
}

// No sentence stands in the code.
func TestTheCommandsSayNothingElse(t *testing.T) {
	t.Parallel()
	wordstest.Literals(t, wordstest.Allowed{Names: map[string]string{
		"Use": "the form of a command line",
	}, Literals: map[string]string{
		"stock lab soak --for %v --seed %d --instances %d": "a command",
		"orders audit":       "a command",
		"orders outbox":      "a command",
		"orders token":       "a command",
		"lab failover":       "a command",
		"exit status %d: %v": "main prints the error in it",
		playCommands:         "commands",
		"go: downloading ":   "what the go command says",
	}})
}

// What cobra and other packages say in English is said in Chinese, too, and the English is theirs.
func TestErrorsOfOthersAreInBothLanguages(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ args, zh string }{
		{"class --replay " + empty, "--replay " + empty + `: 没有一行的 kind 是 "run"：这不是课堂的录像`},
		{"sell", `"stock" 没有 "sell" 这个命令`},
		{"laod", "\"stock\" 没有 \"laod\" 这个命令\n\n是否指：\n\tlab\n\tload\n"},
		{"demo now", `"stock demo" 没有 "now" 这个命令`},
		{"lock evict", "需要 2 个参数，给了 0 个"},
		{"audit book", `"stock audit" 已随订单服务迁走：请用 "stock orders audit"`},
		{"load --bogus", "没有 --bogus 这个选项"},
		{"load -xz", `-xz 里没有 'x' 这个选项`},
		{"load --stock", "选项 --stock 需要一个值"},
		{"load --stock=x", `"--stock"：值 "x" 无效："x" 不是整数`},
		{"load --stock=99999999999999999999", `"--stock"：值 "99999999999999999999" 无效："99999999999999999999" 超出范围`},
		{"load --seed=-1", `"--seed"：值 "-1" 无效："-1" 不是非负整数`},
		{"load --no-color=x", `"--no-color"：值 "x" 无效："x" 不是 true 或 false`},
		{"load --timeout=x", `"--timeout"：值 "x" 无效："x" 不是时长`},
		{"load --timeout=5", `"--timeout"：值 "5" 无效：时长 "5" 缺少单位，如 ms 或 s`},
		{"load --timeout=5x", `"--timeout"：值 "5x" 无效：时长 "5x" 的单位 "x" 无法识别`},
		{"checkout --lost-replies=x", `"--lost-replies"：值 "x" 无效："x" 不是数`},
		{"load --=x", "选项写法有误：--=x"},
		{"lock run bogus key -- true", `没有叫 "bogus" 的策略；有 redis-setnx-expire、`},
		{"demo --strategies bogus", `--strategies: 没有叫 "bogus" 的策略；有 none、`},
	} {
		_, _, err := run(t.Context(), strings.Fields(row.args)...)
		if err == nil {
			t.Errorf("%s: no error", row.args)
			continue
		}
		var status exitError
		if errors.As(err, &status) {
			err = status.err
		}
		if got := voice(words.Chinese).message(err); !strings.HasPrefix(got, row.zh) {
			t.Errorf("%s: %s\nwant %s", row.args, got, row.zh)
		}
		if got := voice(words.English).message(err); got != err.Error() {
			t.Errorf("%s: the English is %s", row.args, got)
		}
	}
	lease, lose := lock.NewLease("a", lock.NoFence, func(context.Context) error { return nil })
	lose(&lock.ExpiredError{After: 2 * time.Second})
	<-lease.Done()
	for _, err := range []error{
		context.Canceled, context.DeadlineExceeded,
		&lock.HeldError{Key: "a"},
		&lock.HeldError{Key: "a", Remaining: time.Second},
		&lock.HeldError{Key: "a", Holder: "b"},
		&lock.HeldError{Key: "a", Holder: "b", Remaining: time.Second},
		lease.Err(), lock.ErrTaken, lock.ErrExpired,
		&lock.ExpiredError{After: time.Second, Maximum: true},
	} {
		if zh := voice(words.Chinese).message(err); zh == err.Error() {
			t.Errorf("no Chinese for %q", zh)
		}
		if en := voice(words.English).message(err); en != err.Error() {
			t.Errorf("the English of %q is %q", err, en)
		}
	}
	down := driver.NewDown("redis", "redis-not-configured")
	for lang, want := range map[string]string{
		words.English: "x: redis is down: it is not configured: set redis.url (STOCK_REDIS_URL)",
		words.Chinese: "x: redis 不可用：没有配置：请设置 redis.url（STOCK_REDIS_URL）",
	} {
		if got := voice(lang).message(fmt.Errorf("x: %w", down)); got != want {
			t.Errorf("%s: %s", lang, got)
		}
	}
	if zh := voice(words.Chinese).message(lease.Err()); zh != `锁 "a" 已丢失：租约在 2s 之后过期` {
		t.Error(zh)
	}
}

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

	"github.com/spf13/cobra"

	"example.com/stock/internal/words"
	"example.com/stock/internal/words/wordstest"
	"example.com/stock/lock"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheCommandsHaveTheirTexts(t *testing.T) {
	t.Parallel()
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{
		"say": {}, "Say": {}, "failure": {}, "listMigrations": {Bare: true},
	}, "server.", "group.", "usage.", "foreign.", "audit.balances", "audit.does-not", "lock.evicted",
		"lock.evicted-after", "archive.whole", "archive.not-whole", "archive.done", "archive.would", "archive.progress")
}

// No sentence stands in the code.
func TestTheCommandsSayNothingElse(t *testing.T) {
	t.Parallel()
	wordstest.Literals(t, wordstest.Allowed{Names: map[string]string{
		"Use":       "the form of a command line",
		"relayVerb": "the form of a command line",
	}, Literals: map[string]string{
		"stock lab soak --for %v --seed %d --instances %d": "a command",
		"exit status %d: %v": "main prints the error in it",
		playCommands:         "commands",
		"go: downloading ":   "what the go command says",
	}})
}

// What cobra and other packages say in English is said in Chinese, too. Each sentence of the catalogue is one that they
// say.
func TestErrorsOfOthersAreInBothLanguages(t *testing.T) {
	t.Parallel()
	said := make(map[string]bool)
	var note func(error)
	note = func(err error) {
		said[foreign.Key(err.Error())] = true
		switch wrapper := err.(type) {
		case interface{ Unwrap() error }:
			if cause := wrapper.Unwrap(); cause != nil {
				note(cause)
			}
		case interface{ Unwrap() []error }:
			for _, cause := range wrapper.Unwrap() {
				note(cause)
			}
		}
	}
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
		{"audit", "至少需要 1 个参数，只给了 0 个"},
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
		{"load --lost-replies=x", `"--lost-replies"：值 "x" 无效："x" 不是数`},
		{"load --=x", "选项写法有误：--=x"},
		{"lock bogus key -- true", `没有策略 "bogus"；请用其中之一：redis-setnx-expire, `},
		{"demo --strategies bogus", `--strategies: 没有策略 "bogus"；有 none, `},
		{"config --wait 61s", "配置有误：\nwait: 1m1s 不在 0s 到 1m0s 之间"},
		{"config --relay-webhook-url x", "配置有误：\nrelay.webhook_url: 须为 http:// 或 https:// 加主机"},
		{"config --relay-webhook-url http://a@b", "配置有误：\nrelay.webhook_url: 不能带用户名或密码：由签名说明发送者"},
		{"audit a/b", "sku 只能由 A-Z a-z 0-9 . _ : - 组成，第 2 个字符不是"},
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
		note(err)
	}
	needs := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
	needs.Flags().String("flag", "", "")
	_ = needs.MarkFlagRequired("flag")
	needs.SetArgs(nil)
	note(needs.Execute())
	lease, lose := lock.NewLease("a", lock.NoFence, func(context.Context) error { return nil })
	lose(fmt.Errorf("%w after 2s", lock.ErrExpired))
	<-lease.Done()
	for _, err := range []error{
		context.Canceled, context.DeadlineExceeded,
		&lock.HeldError{Key: "a"},
		&lock.HeldError{Key: "a", Remaining: time.Second},
		&lock.HeldError{Key: "a", Holder: "b"},
		&lock.HeldError{Key: "a", Holder: "b", Remaining: time.Second},
		lease.Err(), lock.ErrTaken, lock.ErrExpired,
		fmt.Errorf("%w: held for the maximum of 1s", lock.ErrExpired), // as KeepAlive says it
		&lock.DownError{Server: "redis", Reason: "refused"},
		errors.New("it is not configured"), errors.New("the history has no request"),
		errors.New("the run of the lab has no case of which anything was recorded"),
		errors.New("it cannot be configured here"),
	} {
		note(err)
		if zh := voice(words.Chinese).message(err); zh == err.Error() {
			t.Errorf("no Chinese for %q", zh)
		}
	}
	if zh := voice(words.Chinese).message(lease.Err()); zh != `锁 "a" 已丢失：租约在 2s 之后过期` {
		t.Error(zh)
	}
	texts, err := phrases.Texts()
	if err != nil {
		t.Fatal(err)
	}
	for key := range texts.Under("foreign") {
		if !said[key] {
			t.Errorf("nobody says foreign.%s", key)
		}
	}
}

package handler

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/stock/handler/access"
	"example.com/stock/internal/mysqlerr"
	"example.com/stock/internal/rediserr"
	"example.com/stock/internal/words"
	"example.com/stock/internal/words/wordstest"
	"example.com/stock/lock"
	"example.com/stock/service"
)

// Every problem has its title and its details in both languages, and so has every code of an InvalidError or a
// DownError that any package makes, with its values. The catalogue has nothing else.
func TestEveryProblemHasItsTexts(t *testing.T) {
	t.Parallel()
	var made []string
	seen := make(map[string]bool)
	for _, row := range table(Crowded{}) {
		if key := row.kind.name + ".title"; !seen[key] {
			seen[key] = true
			made = append(made, key)
		}
	}
	made = append(made, codes(t)...)
	for _, m := range mysqlerr.Meanings() {
		if m.Reason != "" {
			made = append(made, "down."+m.Reason)
		}
	}
	for _, m := range rediserr.Meanings() {
		made = append(made, "down."+m.Reason)
	}
	for _, reason := range access.Reasons() {
		made = append(made, "token."+reason)
	}
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{"Say": {}, "text": {}, "textWith": {At: 2}}, made...)
}

// unchecked is an error with a code that its constructor has not seen.
var unchecked = regexp.MustCompile("(InvalidError|DownError)\\{[^}]*Reason: *[^}]*[\"`(]")

// codes checks all that make an InvalidError or a DownError, and returns their keys in the catalogue.
func codes(t *testing.T) (keys []string) {
	t.Helper()
	speakers := map[string]wordstest.Speaker{
		"Invalid": {At: 1, Under: []string{"reason."}, Literal: true},
		"bad":     {Under: []string{"reason."}, Literal: true},
		"NewDown": {At: 1, Under: []string{"down."}, Literal: true},
		"Absent":  {At: 1, Under: []string{"down."}, Literal: true},
	}
	for _, room := range []string{".", "demo", "orders", "../app", "../lock", "../repo", "../service"} {
		if err := filepath.WalkDir(room, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				keys = append(keys, wordstest.Said(t, phrases, path, speakers)...)
				return nil
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			if found := unchecked.Find(text); found != nil {
				t.Errorf("%s: %s has a reason that is not checked", path, found)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) < 90 {
		t.Errorf("only %d codes were found", len(keys))
	}
	return keys
}

// What an error says has its values in both languages.
func TestWhatErrorsSay(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err    error
		en, zh string
	}{
		{
			service.Invalid("quantity", "from-to", "least", 1, "most", 9),
			"quantity must be from 1 to 9", "quantity 须在 1 到 9 之间",
		},
		{
			service.Invalid("sku", "characters", "most", 64, "has", 65),
			"sku must have at most 64 characters, has 65", "sku 最多 64 个字符，现有 65 个",
		},
		{
			service.Invalid("x", "known", "list", "{a} to b"),
			"x is unknown here; known are {a} to b", "x 在这里不认识；认识的有 {a} to b",
		},
		{
			lock.NewDown("redis", "no-answer", "limit", 800*time.Millisecond),
			"redis is down: no answer within 800ms", "redis 不可用：800ms 内没有响应",
		},
		{
			lock.NewDown("zookeeper", "not-allowed", "root", "/a"),
			"zookeeper is down: it does not allow this service to lock under /a: the nodes there and below must " +
				"belong to its zookeeper.credentials or its client certificate, or be open to everybody; or " +
				"configure another root",
			"zookeeper 不可用：它不允许本服务在 /a 之下加锁：该处及以下的节点必须属于本服务的 zookeeper.credentials 或客户端证书，" +
				"或对所有人开放；也可另配一个根路径",
		},
		{
			lock.NewDown("redis", "cluster-slots", "missing", 2, "all", 16384, "which", "0-1"),
			"redis is down: its cluster is down: 2 of 16384 slots are not served (0-1)",
			"redis 不可用：它的 Cluster 不可用：16384 个槽中有 2 个没有节点提供（0-1）",
		},
	} {
		if got, ok := Said(row.err); !ok || got != (words.Text{EN: row.en, ZH: row.zh}) {
			t.Errorf("%v: %q, %q", row.err, got.EN, got.ZH)
		}
	}
	invalid := service.Invalid("quantity", "from-to", "least", 1, "most", 9)
	if got := invalid.Error(); got != "quantity from-to (least=1, most=9)" {
		t.Errorf("the log has %q", got)
	}
	if p := explainInvalid(invalid); p.Field != "quantity" || p.detail.ZH != "quantity 须在 1 到 9 之间" {
		t.Errorf("%v", p.detail)
	}
	for reason, fix := range map[string]string{ // what an operator must mend says how
		"no-schema": "stock migrate up", "old-schema": "stock migrate up", "read-only": "master",
		"too-many-connections": "max_connections", "access-denied": "grants", "cannot-kill": "CONNECTION ADMIN",
		"out-of-memory": "maxmemory", "unusable-masters": "redlock.addrs", "read-only-replica": "redis.master_name",
	} {
		if said, _ := Said(lock.NewDown("x", reason)); !strings.Contains(said.EN, fix) {
			t.Errorf("%s does not name %s: %s", reason, fix, said.EN)
		}
	}
	if _, ok := Said(errInternal); ok {
		t.Error("an error without a code is said")
	}
}

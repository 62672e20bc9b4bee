package words_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"example.com/stock/internal/words"
)

// What was said in English is read back with its values, also those that are texts themselves.
func TestRead(t *testing.T) {
	t.Parallel()
	texts, err := words.ReadTexts(catalogueOf(`
refused:
  held: lock {key} is held
  held-by: lock {key} is held by {who}
  failed: '{n} locks failed: {why}'
why:
  late: no answer within {limit}
  taken: '{n} of {all} nodes, {why}'
`, `
refused:
  held: 锁 {key} 被持有
  held-by: 锁 {key} 由 {who} 持有
  failed: '{n} 把锁失败：{why}'
why:
  late: '{limit} 内没有响应'
  taken: '{all} 个节点中的 {n} 个，{why}'
`), "text")
	if err != nil {
		t.Fatal(err)
	}
	refused := texts.Under("refused")
	for english, chinese := range map[string]string{
		"connection refused":                                 "connection refused",
		"lock a is held":                                     "锁 a 被持有",
		"lock a is held by b (x)":                            "锁 a 由 b (x) 持有", // of two the longer
		"2 locks failed: EOF":                                "2 把锁失败：EOF",
		"2 locks failed: no answer within 2s":                "2 把锁失败：2s 内没有响应",
		"2 locks failed: 1 of 3 nodes, no answer within {n}": "2 把锁失败：3 个节点中的 1 个，{n} 内没有响应",
		"2 locks failed: lock a is held":                     "2 把锁失败：lock a is held", // it is none of those inside
		"no answer within 2s":                                "no answer within 2s",
		"":                                                   "",
	} {
		if got := refused.Read(english, texts.Under("why")); got != (words.Text{EN: english, ZH: chinese}) {
			t.Errorf("%q: %q, %q", english, got.EN, got.ZH)
		}
	}
}

// An error that has a code, and no text of its own, is said in both languages where it stands in a message.
func TestOfWhatHasACode(t *testing.T) {
	t.Parallel()
	book := words.NewPhrasebook(catalogueOf("failed: '{n} failed: {why}'", "failed: '{n} 个失败：{why}'"), "text")
	code := errors.New("code (n=1)")
	tell := func(err error) (words.Text, bool) {
		return words.Text{EN: "one is one", ZH: "一就是一"}, err == code
	}
	for _, row := range []struct {
		err    error
		en, zh string
	}{
		{code, "one is one", "一就是一"},
		{fmt.Errorf("stock: %w", code), "stock: one is one", "stock: 一就是一"},
		{errors.Join(io.EOF, code), "EOF\none is one", "EOF\n一就是一"},
		{book.Error("failed", "n", 2, "why", code), "2 failed: one is one", "2 个失败：一就是一"},
		{book.Error("failed", "n", 2, "why", io.EOF), "2 failed: EOF", "2 个失败：EOF"},
	} {
		if got := words.Of(row.err, tell); got != (words.Text{EN: row.en, ZH: row.zh}) {
			t.Errorf("%q, %q", got.EN, got.ZH)
		}
	}
}

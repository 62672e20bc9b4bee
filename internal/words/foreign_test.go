package words_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"example.com/stock/internal/words"
)

// What a library says in English is found with its values, wherever it stands in an error, and the English stays.
func TestForeign(t *testing.T) {
	t.Parallel()
	book := words.NewPhrasebook(catalogueOf(`
foreign:
  over: it is over
  over-after: it is over after {time}
  number: 'strconv.ParseInt: parsing {value}: invalid syntax'
  argument: 'invalid argument {value} for {flag}: {why}'
  held: lock {key} is held
  held-by: lock {key} is held by {who}
failed: '{n} locks failed: {why}'
other: lock a is held by nobody at all`, `
foreign:
  over: 结束了
  over-after: 在 {time} 之后结束
  number: '{value} 不是整数'
  argument: '{flag}：{value} 不行：{why}'
  held: 锁 {key} 被持有
  held-by: 锁 {key} 由 {who} 持有
failed: '{n} 把锁失败：{why}'
other: 没有人持有锁 a`), "text")
	foreign := book.Foreign("foreign")
	_, number := strconv.ParseInt("x", 0, 64)
	argument := fmt.Errorf("invalid argument %q for %q: %w", "x", "-n", number)
	held := errors.New("lock a is held by b (x)")
	for _, row := range []struct {
		err error
		zh  string
	}{
		{errors.New("connection refused"), "connection refused"},
		{held, "锁 a 由 b (x) 持有"},                                                  // the longer pattern
		{errors.New("lock a is held by nobody at all"), "锁 a 由 nobody at all 持有"}, // of that part alone
		{number, `"x" 不是整数`},
		{argument, `"-n"："x" 不行："x" 不是整数`},
		{fmt.Errorf("stock: %w", argument), `stock: "-n"："x" 不行："x" 不是整数`},
		{fmt.Errorf("%w after 2s", errors.New("it is over")), "在 2s 之后结束"}, // not 结束了 after 2s
		{errors.Join(held, errors.New("b"), number), "锁 a 由 b (x) 持有\nb\n\"x\" 不是整数"},
		{book.Error("failed", "n", 2, "why", held), "2 把锁失败：锁 a 由 b (x) 持有"},
		{book.Error("failed", "n", 2, "why", book.Error("failed", "n", 1, "why", number)), "2 把锁失败：1 把锁失败：\"x\" 不是整数"},
	} {
		if got := foreign.Of(row.err); got != (words.Text{EN: row.err.Error(), ZH: row.zh}) {
			t.Errorf("%q, %q, want %q", got.EN, got.ZH, row.zh)
		}
	}
	if key := foreign.Key("lock a is held by b"); key != "held-by" {
		t.Errorf("the key is %q", key)
	}
	if key := foreign.Key("a lock is held"); key != "" {
		t.Errorf("the key is %q", key)
	}
}

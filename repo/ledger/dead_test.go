package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// eachDeadLetters runs a test on every store of dead letters, empty.
func eachDeadLetters(t *testing.T, test func(t *testing.T, dead orders.DeadLetters)) {
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		test(t, ledger.NewMySQL(repo.NewMySQL(openMySQL(t, database(t)))))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		dead, err := ledger.NewRedis(repo.NewRedis(dialRedis(t, stacktest.Redis(t).Addr)))
		if err != nil {
			t.Fatal(err)
		}
		test(t, dead)
	})
}

func parked(t *testing.T, dead orders.DeadLetters, after service.SKU, limit int) []orders.DeadLetter {
	t.Helper()
	letters, err := dead.Parked(short(t), after, limit)
	if err != nil {
		t.Fatal(err)
	}
	return letters
}

func TestADeadLetterIsKeptUntilItIsSettled(t *testing.T) {
	t.Parallel()
	eachDeadLetters(t, func(t *testing.T, dead orders.DeadLetters) {
		const big = 1<<63 + 1 // no double has it
		want := orders.DeadLetter{SKU: "a", Number: big, Attempts: 3, Reason: "said \"no\" \xff, 坏了"}
		want.Reason = strings.ToValidUTF8(want.Reason, "?")
		if err := dead.Park(short(t), want); err != nil {
			t.Fatal(err)
		}
		for _, verdict := range []orders.Decision{orders.Undecided, orders.Resend, orders.Resend, orders.Skip} {
			if verdict != orders.Undecided {
				if err := dead.Decide(short(t), "a", big, verdict); err != nil {
					t.Fatal(err)
				}
			}
			got := parked(t, dead, "", 10)
			if len(got) != 1 || time.Since(got[0].ParkedAt).Abs() > time.Minute {
				t.Fatalf("parked: %+v", got)
			}
			want.ParkedAt, want.Decision = got[0].ParkedAt, verdict
			if got[0] != want {
				t.Errorf("after %q: %+v, want %+v", verdict, got[0], want)
			}
		}
		want.Number = 7
		if err := dead.Park(short(t), want); err != nil {
			t.Fatal(err)
		}
		if got := parked(t, dead, "", 10); len(got) != 1 || got[0].Number != 7 || got[0].Decision != orders.Undecided {
			t.Errorf("parked anew: %+v, want number 7 alone, undecided", got)
		}
		if err := dead.Decide(short(t), "a", 7, orders.Settled); err != nil {
			t.Fatal(err)
		}
		if got := parked(t, dead, "", 10); len(got) != 0 {
			t.Errorf("settled: %+v, want none", got)
		}
	})
}

func TestAVerdictIsAboutOneEvent(t *testing.T) {
	t.Parallel()
	eachDeadLetters(t, func(t *testing.T, dead orders.DeadLetters) {
		if err := dead.Park(short(t), orders.DeadLetter{SKU: "a", Number: 5}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			sku    service.SKU
			number uint64
		}{{"a", 4}, {"a", 6}, {"A", 5}, {"b", 5}} {
			for _, v := range []orders.Decision{orders.Skip, orders.Settled} {
				if err := dead.Decide(short(t), c.sku, c.number, v); !errors.Is(err, orders.ErrNoDeadLetter) {
					t.Errorf("%q on %s/%d: %v, want ErrNoDeadLetter", v, c.sku, c.number, err)
				}
			}
		}
		if got := parked(t, dead, "", 10); len(got) != 1 || got[0].Decision != orders.Undecided {
			t.Errorf("%+v, want one, undecided", got)
		}
	})
}

func TestDeadLettersComeInPages(t *testing.T) {
	t.Parallel()
	eachDeadLetters(t, func(t *testing.T, dead orders.DeadLetters) {
		for i := range 7 {
			letter := orders.DeadLetter{SKU: service.SKU(fmt.Sprintf("s-%d", 6-i)), Number: uint64(i) + 1}
			if err := dead.Park(short(t), letter); err != nil {
				t.Fatal(err)
			}
		}
		var seen []string
		for after := service.SKU(""); ; {
			page := parked(t, dead, after, 3)
			if len(page) == 0 {
				break
			}
			for _, letter := range page {
				seen = append(seen, string(letter.SKU))
				after = letter.SKU
			}
		}
		if got := strings.Join(seen, " "); got != "s-0 s-1 s-2 s-3 s-4 s-5 s-6" {
			t.Errorf("letters of %s", got)
		}
	})
}

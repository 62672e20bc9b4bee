package loadtest

import (
	"testing"

	"example.com/stock/internal/words"
	"example.com/stock/internal/words/wordstest"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheJudgeHasItsTexts(t *testing.T) {
	speakers := map[string]wordstest.Speaker{"say": {}, "Say": {}, "Error": {}}
	for name, under := range map[string][]string{
		"note": {"note."}, "warn": {"warning."}, "bad": {"threshold.", "plan."}, "fail": {"client."},
	} {
		speakers[name] = wordstest.Speaker{Under: under}
	}
	speakers["tell"] = wordstest.Speaker{At: 2, Under: []string{"because."}, Bare: true}
	speakers["because"] = wordstest.Speaker{At: 1, Under: []string{"because."}}
	speakers["wrong"] = wordstest.Speaker{At: 1, Under: []string{"plan."}}
	wordstest.Catalogue(t, phrases, speakers, "load.arrivals-poisson", "load.arrivals-even", "damage.", "recorded.",
		"figure.")
}

// What a history has in English is shown in the reader's language: what the service refused, and what this package
// recorded.
func TestRecordedErrorsAreInBothLanguages(t *testing.T) {
	for _, row := range []struct{ problem, english, zh string }{
		{"", "no whole reply: no reply within the timeout", "没有完整的响应：时限之内没有响应"},
		{"", "no whole reply: EOF", "没有完整的响应：EOF"},
		{"", "not sent: connection refused", "没有发出：connection refused"},
		{"", "status 307 redirects to http://a/b, which is not followed", "状态码 307，重定向到 http://a/b，这里不会跟随"},
		{"", "step line: no whole reply: EOF", "步骤 line：没有完整的响应：EOF"},
		{"sold_out", "sold out: 3 left", "售罄：剩余 3 件"},
		{"backend_down", "redis is down: it does not answer", "redis 不可用：it does not answer"},
		{"backend_down", "redis is down: no answer within 800ms", "redis 不可用：800ms 内没有响应"},
		{"invalid", "quantity must be from 1 to 9", "quantity 须在 1 到 9 之间"},
		{"teapot", "of somebody else's service", "of somebody else's service"},
		{"", "", ""},
	} {
		if got := ErrorText(row.problem, row.english); got != (words.Text{EN: row.english, ZH: row.zh}) {
			t.Errorf("%q: %q", row.english, got.ZH)
		}
	}
}

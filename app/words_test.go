package app

import (
	"testing"

	"example.com/stock/internal/words/wordstest"
)

// Every setting says in both languages what it means, and nothing else does.
func TestEverySettingHasItsTexts(t *testing.T) {
	t.Parallel()
	keys := []string{configFlag}
	for _, s := range allSettings() {
		keys = append(keys, s.textKey())
	}
	under := []string{"wrong."}
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{
		"Say": {}, "failure": {Under: under},
		"no": {At: 1, Under: under}, "wrong": {At: 1, Under: under},
	}, append(keys, "evicts", "wrong.unknown-key", "wrong.unknown-variable", "wrong.meant-key",
		"wrong.meant-variable", "wrong.gone-listener-tls")...)
	for flag, want := range map[string]string{
		"stores-enabled": "使用的存储；空：两个都用 (STOCK_STORES_ENABLED)",
		"config":         "配置文件：YAML、TOML 或 JSON (STOCK_CONFIG)",
	} {
		if usage, ok := Usage(flag); !ok || usage.ZH != want {
			t.Errorf("--%s: %q, %v", flag, usage.ZH, ok)
		}
	}
	if _, ok := Usage("bogus"); ok {
		t.Error("there is no such flag")
	}
}

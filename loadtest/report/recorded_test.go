package report_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/loadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recordings are histories of runs of 30 workers on three instances with a real Redis, as docs/refresh recordings
// made them.
func recordings() []string { return []string{"none", "redis-watchdog", "segmented"} }

func recorded(t testing.TB, name string) *loadtest.Result {
	t.Helper()
	return history(t, name).Result()
}

func history(t testing.TB, name string) *loadtest.History {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	h, err := loadtest.ReadHistory(unzipped)
	if err != nil {
		t.Fatalf("%s: %v (docs/refresh recordings makes it anew)", name, err)
	}
	return h
}

func mustHave(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("no %q", word)
		}
	}
}

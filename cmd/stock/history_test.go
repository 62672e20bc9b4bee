package main

import (
	"path/filepath"
	"testing"
)

// The service names its strategies. A name such as a path makes no file outside the folder of --history.
func TestHistoriesStayInTheirFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for strategy, want := range map[string]string{
		"none": "run.none.jsonl", "../../x": "run.__.._x.jsonl", "/etc/cron.d/x": "run._etc_cron.d_x.jsonl",
	} {
		file, err := openHistory(filepath.Join(dir, "run.jsonl"), strategy, true)
		if err != nil {
			t.Errorf("%s: %v", strategy, err)
			continue
		}
		if got := file.file.Name(); got != filepath.Join(dir, want) {
			t.Errorf("%s: %s, want %s", strategy, got, want)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}

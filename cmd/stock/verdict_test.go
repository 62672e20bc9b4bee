package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// verdict runs the command and returns its exit status and its output.
func verdict(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	return command(t, append([]string{"verdict"}, args...)...)
}

// The command judges the content of the store, whichever tool sold from it.
func TestVerdictExitStatus(t *testing.T) {
	t.Parallel()
	right, lossy, fresh := standIn(t, "", nil), standIn(t, "", nil), standIn(t, "s3cret", nil)
	for url, strategy := range map[string]string{right: "right", lossy: "none"} {
		if status, out, err := load(
			t.Context(), "--url", url, "-s", strategy, "--sku", "x", "-n", "30", "-c", "3", "--stock", "20",
		); status != 0 {
			t.Fatal(out, err)
		}
	}
	dir, files := t.TempDir(), 0
	file := func(name, text string) string {
		files++
		path := filepath.Join(dir, fmt.Sprintf("%s-%d.txt", name, files))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hey := func(accepted, refused int) string {
		return fmt.Sprintf("\nSummary:\n\nStatus code distribution:\n  [200]\t%d responses\n  [409]\t%d responses\n",
			accepted, refused)
	}
	for _, row := range []struct {
		args   string
		status int
		says   string // several things, with | between
	}{
		{"--url " + right, 0, "HOLDS: 20 = 0 remaining + 20 sold, and no two orders read the same|is not known: " +
			"give the summary of your tool with --from|looked until |what came later was not seen"},
		// 30 requests were sent, and 20 accepted: that is no reason to accuse.
		{"--url " + right + " --from " + file("hey", hey(20, 10)), 0, "HOLDS|20, as you say"},
		{"--url " + right + " --from " + file("hey", hey(21, 9)), 3, "phantoms: 21 requests were accepted"},
		{"--url " + right + " --from " + file("hey", hey(19, 10)), 4, "foreign: 1 order more"},
		{"--url " + right + " --from " + file("empty", ""), 1, "--from: |is empty"},
		{"--url " + right + " --from " + file("log", "all is well\n"), 1, "is no summary of a tool that is known here"},
		{"--url " + right + " --format wrk --from " + file("hey", hey(20, 10)), 1, "has no summary of wrk"},
		{"--url " + right + " --from nowhere.txt", 1, "--from: open nowhere.txt"},
		{"--url " + right + " --from x --accepted 3", 1, "--from: tells how many were accepted: leave out --accepted"},
		{"--url " + right + " --from x --set 3", 1, "--from: tells how many were accepted: leave out --set"},
		{"--url " + right + " --format hey", 1, "--format: is the format of --from, which is missing"},
		{"--url " + right + " --recheck -1s", 1, "--recheck: must be from 0s (look once) to 1h0m0s, is -1s"},
		{"--url " + right + " --accepted 19", 4, "foreign: 1 order more than accepted replies were counted"},
		{"--url " + right + " --accepted 19 --cut-off 1", 0, "1 order more than accepted replies were counted"},
		{"--url " + right + " --accepted 10 --shared", 0, "10 orders more than accepted replies were counted"},
		{
			"--url " + right + " --accepted 20 --quantity 2", 3,
			"misserved: 20 orders of another number of units than the 2",
		},
		{"--url " + right + " --initial 100", 4, "the store says that there were 20 units at first, not 100"},
		{"--url " + right + " --json -", 0, `"finding": "holds"`},
		{
			"--url " + lossy, 3,
			"oversold by 10 units: 30 sold of 20|30 units lost: 30 sold, but the stock went down by 0, from 20 to " +
				"20|435 pairs of orders read the same version",
		},
		{"--url " + fresh, 2, "answers but is not a stock service"}, // this one has no SKU yet
		{"--url " + fresh + " --set 7", 2, "--admin-token TOKEN, or STOCK_ADMIN_TOKEN"},
		{"--url " + fresh + " --set 7 --admin-token s3cret", 0, "The stock of SKU x is 7 now"},
		{"--url " + fresh, 4, "nothing was sold"},
		{"--url http://127.0.0.1:1", 2, "cannot be reached"},
		{"--url " + right + " --set 7 --accepted 3", 1, "--set: starts anew"},
		{"--url " + right + " --set -1", 1, "--set: must be 0 or more, is -1"},
		{"--url " + right + " --quantity 0", 1, "--quantity: must be 1 or more, is 0"},
		{"--url " + right + " --mapping nowhere.yaml", 1, "--mapping: open nowhere.yaml"},
		{"--url " + right + " --json /nowhere/at/all", 1, "--json: "},
		{"--url ftp://x", 1, "--url: "},
	} {
		t.Run(
			strings.NewReplacer(right, "RIGHT", lossy, "LOSSY", fresh, "FRESH", dir, "DIR").Replace(row.args),
			func(t *testing.T) {
				if !strings.Contains(row.args, fresh) { // of which each row finds what the one before has left
					t.Parallel()
				}
				status, said := verdict(t, append([]string{"--recheck", "0s", "--sku", "x"},
					strings.Fields(row.args)...)...)
				for want := range strings.SplitSeq(row.says, "|") {
					if status != row.status || !strings.Contains(strings.Join(strings.Fields(said), " "), want) {
						t.Errorf("status %d, want %d with %q; said\n%s", status, row.status, want, said)
					}
				}
			},
		)
	}
}

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The commands of loadtest/README.md: the wrong shop is proved wrong, the right one is not accused, by load and from the store alone.
func TestLoadOfSomebodyElsesService(t *testing.T) {
	program := filepath.Join(t.TempDir(), "shop")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../loadtest/examples/shop").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, row := range []struct {
		flag   string
		status int
		says   string
	}{
		{"-fixed=false", exitVerdict, "pairs of orders read the same quantity"},
		{"-fixed", 0, "HOLDS: 100 = 0 remaining + 100 sold"},
	} {
		t.Run(row.flag, func(t *testing.T) {
			url := startShop(t, program, row.flag)
			for _, mapping := range []string{"mapping.yaml", "mapping-least.yaml"} {
				args := []string{"--mapping", "../../loadtest/examples/shop/" + mapping, "--url", url, "--sku", "book"}
				history := filepath.Join(t.TempDir(), "run.jsonl")
				status, out, err := load(t.Context(), append(args, "-c", "30", "-n", "240", "--stock", "100", "--history", history)...)
				if status != row.status || mapping == "mapping.yaml" && !strings.Contains(out, row.says) || !strings.Contains(out, "not told") {
					t.Errorf("%s: status %d, want %d with %q, %v\n%s", mapping, status, row.status, row.says, err, out)
				}
				accepted := regexp.MustCompile(`accepted (\d+)`).FindStringSubmatch(out)[1]
				if status, out := verdict(t, append(args, "--initial", "100", "--accepted", accepted)...); status != row.status {
					t.Errorf("%s: verdict has status %d, want %d\n%s", mapping, status, row.status, out)
				}
			}
		})
	}
}

// startShop starts the example and returns its address.
func startShop(t *testing.T, program, flag string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, flag, "-addr", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	_, url, found := strings.Cut(strings.TrimSpace(line), " sells at ")
	if err != nil || !found {
		t.Fatalf("%q, %v", line, err)
	}
	return url
}

func TestLoadRefusesMappings(t *testing.T) {
	good := "../../loadtest/examples/shop/mapping.yaml"
	bad := file(t, "bad.yaml", "name: x\nreed: {path: /a}\n")
	for _, row := range []struct{ args, says string }{
		{"--mapping " + good + " -s none", "--strategy: cannot stand with --mapping"},
		{"--mapping " + good + " --store redis", "--store: cannot stand with --mapping"},
		{"--mapping " + good + " --wait 1s", "--wait: cannot stand with --mapping"},
		{"--mapping " + good + " --must-race", "--must-race: cannot stand with --mapping"},
		{"--mapping nowhere.yaml", "--mapping: open nowhere.yaml"},
		{"--mapping " + bad, "line 2: reed: is no key of the file; there is deduct, headers, name, orders, read, set"},
	} {
		status, out, err := load(t.Context(), strings.Fields(row.args)...)
		if status != 1 || !strings.Contains(fmt.Sprint(err), row.says) {
			t.Errorf("%s: status %d, %v\n%s", row.args, status, err, out)
		}
	}
	for _, args := range []string{"--initial 100", "--accepted 3", ""} {
		status, out := verdict(t, append(strings.Fields(args), "--mapping", strings.Replace(good, "mapping.yaml", "mapping-least.yaml", 1), "--url", "http://127.0.0.1:1")...)
		if status != exitTarget {
			t.Errorf("%s: %d %s", args, status, out)
		}
	}
}

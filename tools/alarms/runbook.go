package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"example.com/stock/tools/bench/rig"
	"example.com/stock/tools/runbook"
)

// pages have the commands of runbooks, by the parts of a page.
type pages struct{ confirm, mend, over []string }

// read reads the pages of runbooks. tools/alerts tests that all pages have the same five parts.
func (b *bed) read(names []string) *pages {
	root, err := rig.Root(b.ctx)
	b.must("find the runbooks", err)
	var all pages
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, "docs/runbooks", name+".md"))
		b.must("read the runbook", err)
		parts := strings.Split(string(text), "\n## ")
		if len(parts) != 6 {
			b.fatalf("%s has %d parts, want 5", name, len(parts)-1)
		}
		all.confirm = append(all.confirm, runbook.Commands(parts[2])...)
		all.mend = append(all.mend, runbook.Commands(parts[3])...)
		all.over = append(all.over, runbook.Commands(parts[5])...)
	}
	return &all
}

// typeIn runs a command of a page, with the addresses and the folder of this bed.
func (b *bed) typeIn(command string) (string, error) {
	return b.shell(strings.NewReplacer(
		"http://localhost:8080", b.front.URL,
		"http://127.0.0.1:8088", b.sick.URL, "http://127.0.0.1:9090", b.sick.Admin, "/tmp/", b.stack.Dir+"/",
	).Replace(command))
}

// confirm types the commands that confirm the failure, two of each page.
func (b *bed) confirm() {
	var all string
	for _, command := range b.book.confirm {
		output, err := b.typeIn(command)
		all += output
		if fails := b.row.Fails != "" && strings.HasPrefix(command, b.row.Fails); (err != nil) != fails {
			b.fatalf("%s: %v\n%s", command, err, output)
		}
	}
	if !strings.Contains(all, b.row.Confirms) {
		b.fatalf("the commands that confirm the alert do not show %q:\n%s", b.row.Confirms, all)
	}
}

// does types the only command among those that mend which begins so, with other words in place of some of it.
func (b *bed) does(begins string, instead ...string) {
	if b.book == nil { // TestRunbooksOfRows finds a row that could have one
		return
	}
	var found []string
	for _, command := range b.book.mend {
		if strings.HasPrefix(command, begins) {
			found = append(found, command)
		}
	}
	if len(found) != 1 {
		b.fatalf("the runbooks have %d commands %q, want 1", len(found), begins)
	}
	if output, err := b.typeIn(strings.NewReplacer(instead...).Replace(found[0])); err != nil {
		b.fatalf("%s: %w\n%s", found[0], err, output)
	}
}

// over types the commands that show that it is over.
func (b *bed) over() {
	for _, command := range b.book.over {
		if b.row.NotHere != "" && strings.HasPrefix(command, b.row.NotHere) {
			continue
		}
		if output, err := b.typeIn(command); err != nil {
			b.fatalf("%s: %w\n%s", command, err, output)
		}
	}
}

// run runs a command in a shell.
func run(ctx context.Context, env []string, dir, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Env, cmd.Dir = env, dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w", command, err)
	}
	return string(output), err
}

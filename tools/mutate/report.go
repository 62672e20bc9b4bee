package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

const reportHead = `# Mutants

<!-- Made by "make mutate ARGS='--resume --report docs/mutation.md'" from the tables mutants.txt. Do not edit. -->

A mutant is one small change that breaks the code. It stands, with the test that must notice it, in the table
mutants.txt beside the code. "make mutate" compiles each mutant in place of its file, and runs that one test: it must
go red, panic or hang. Before that the test was green without the mutant. The page lists the tables. The last run of
all of them in one go had 938 mutants; of those that were added later, each was run by itself or not at all yet. Tests
of random histories run with one seed, and without what they found in earlier runs. "Same" says why a mutant makes no
difference that can be seen. "Open" is a gap.

`

const reportTail = `The percentage is of the mutants that change something, and of these tables alone.
People wrote the mutants, many of them because a bug had been there or because a test was missing. So it says that these
bugs cannot come back unnoticed. It is not how much of the code is tested, and no estimate of how many other bugs the
tests would find. A sample of mutants that operators make of the code (--random) says more: the last one is at the
top of the page. 90 % is wanted.

Why a command of our own: [gremlins](https://github.com/go-gremlins/gremlins), the well-kept tool for Go, makes its
mutants by operators, of Go alone, and our locks are Lua and SQL, too. It runs all tests of the package for each one,
and many of ours start servers. It cannot be split or resumed. Nobody can say to it what a mutant breaks, and which test
is due. Ours compiles a whole sample into one program for each package, where a mutant is on or off as it is run.
`

const (
	sampleBegin = "<!-- sample: make mutate ARGS='--random N --seed S --report docs/mutation.md' -->\n"
	sampleEnd   = "<!-- end of sample -->\n\n"
)

// writeReport writes the page of the tables. What it has said of a sample stays.
func writeReport(file string, all []*Mutant) error {
	page, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, []byte(report(all, sampleOf(string(page)))), 0o644)
}

// writeSample writes what the page says of a sample. What it says of the tables stays: they may not have been tried.
func writeSample(file, sample string) error {
	page, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, rest, has := strings.Cut(string(page), sampleBegin)
	if has {
		_, rest, _ = strings.Cut(rest, sampleEnd)
	} else if tables, is := strings.CutPrefix(before, reportHead); is {
		before, rest = reportHead, tables
	}
	return os.WriteFile(file, []byte(before+sampleBegin+sample+sampleEnd+rest), 0o644)
}

// sampleOf returns what a page says of a sample.
func sampleOf(page string) string {
	_, after, _ := strings.Cut(page, sampleBegin)
	sample, _, _ := strings.Cut(after, sampleEnd)
	return sample
}

// report renders the tables as a page, with what is said of a sample. It depends on nothing else, so that a test can
// compare the page with them.
func report(all []*Mutant, sample string) string {
	var b strings.Builder
	b.WriteString(reportHead)
	b.WriteString(sampleBegin + sample + sampleEnd)
	b.WriteString("| package | mutants | killed | same | open | killed, of those that change something |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|\n")
	var total tally
	for _, pkg := range byPackage(all) {
		t := count(pkg)
		total.add(t)
		name := pkg[0].Package
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", name, strings.ReplaceAll(name, "/", ""), t)
	}
	fmt.Fprintf(&b, "| all | %s |\n\n", total)
	b.WriteString(reportTail)
	for _, pkg := range byPackage(all) {
		fmt.Fprintf(&b, "\n## %s\n\n| file | what is broken | killed by |\n|---|---|---|\n", pkg[0].Package)
		for _, m := range pkg {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", m.File, cell(m.Name), outcome(m))
		}
	}
	return b.String()
}

// A tally is how many mutants there are of each kind.
type tally struct{ killed, same, open int }

func (t *tally) add(u tally) {
	t.killed, t.same, t.open = t.killed+u.killed, t.same+u.same, t.open+u.open
}

func (t tally) String() string {
	percent := "–"
	if n := t.killed + t.open; n > 0 {
		percent = fmt.Sprintf("%.1f %%", float64(t.killed)/float64(n)*100)
	}
	return fmt.Sprintf("%d | %d | %d | %d | %s", t.killed+t.same+t.open, t.killed, t.same, t.open, percent)
}

func count(mutants []*Mutant) (t tally) {
	for _, m := range mutants {
		switch {
		case m.Same != "":
			t.same++
		case m.Open != "":
			t.open++
		default:
			t.killed++
		}
	}
	return t
}

// byPackage splits the mutants, which stand in the order of their packages.
func byPackage(all []*Mutant) (packages [][]*Mutant) {
	for m := range slices.Values(all) {
		if n := len(packages); n > 0 && packages[n-1][0].Package == m.Package {
			packages[n-1] = append(packages[n-1], m)
			continue
		}
		packages = append(packages, []*Mutant{m})
	}
	return packages
}

func outcome(m *Mutant) string {
	switch {
	case m.Same != "":
		return "same: " + cell(m.Same)
	case m.Open != "":
		return "**open**: " + cell(m.Open)
	}
	text := "`" + strings.ReplaceAll(m.Test, "|", "`, `") + "`"
	if m.In != "" {
		text += " in " + m.In
	}
	return text
}

// cell is a text as a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(text)
}

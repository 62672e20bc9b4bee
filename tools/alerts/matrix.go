package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/stock/internal/words"
)

// shown is a failure that tools/alarms has made, with the alerts that fired.
type shown struct {
	Name     string
	Fires    []string
	Runbooks []string

	failure, note words.Text
}

// readMatrix reads what make alerts has shown.
func readMatrix(root string) (all []shown, err error) {
	text, err := os.ReadFile(filepath.Join(root, "docs/alerts-matrix.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	texts, err := words.ReadTexts(os.DirFS(filepath.Join(root, "tools/alarms")), "text")
	for i := range all {
		all[i].failure, all[i].note = texts["rows."+all[i].Name+".failure"], texts["rows."+all[i].Name+".note"]
	}
	return all, err
}

// matrix returns the part of docs/alerts.md about failures: those that fire alerts, those that fire none, and the
// alerts that none of them fires.
func matrix(alerts []alert, all []shown, say func(string) string, lang string) string {
	suffix := ".md"
	if lang == words.Chinese {
		suffix = ".zh-CN.md"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", say("failures"), say("made"))
	columns := []string{say("failure"), say("fires"), say("played"), say("note")}
	fmt.Fprintf(&b, "| %s |\n|---|---|---|---|\n", strings.Join(columns, " | "))
	fired := make(map[string]bool)
	for _, quiet := range []bool{false, true} {
		for _, s := range all {
			if (len(s.Fires) == 0) != quiet {
				continue
			}
			for _, name := range s.Fires {
				fired[name] = true
			}
			names, books := say("nothing"), make([]string, len(s.Runbooks))
			if len(s.Fires) > 0 {
				names = "`" + strings.Join(s.Fires, "` `") + "`"
			}
			for i, book := range s.Runbooks {
				books[i] = fmt.Sprintf("[%s](runbooks/%s%s)", book, book, suffix)
			}
			failure, note := strings.TrimSpace(s.failure.In(lang)), strings.TrimSpace(s.note.In(lang))
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", failure, names,
				cmp.Or(strings.Join(books, ", "), "-"), note)
		}
	}
	var never []string
	for _, a := range alerts {
		if !fired[a.Name] {
			never = append(never, "`"+a.Name+"`")
		}
	}
	b.WriteString("\n")
	if len(never) > 0 {
		slices.Sort(never)
		fmt.Fprintf(&b, "%s\n\n", strings.ReplaceAll(say("unmade"), "{alerts}", strings.Join(never, " ")))
	}
	return b.String()
}

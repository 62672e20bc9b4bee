// Package runbook reads the runbooks in docs/runbooks.
package runbook

import "strings"

// Commands returns the lines of code of a text.
func Commands(text string) (lines []string) {
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code && line != "":
			lines = append(lines, line)
		}
	}
	return lines
}

package stack

import (
	"io"
	"os"
	"strings"
)

// What is quoted of a log: enough for a Java stack trace's head and for the three lines with which mariadbd explains itself.
const (
	tailLines = 15
	tailBytes = 4 << 10
)

// size is the length of a log now: what a start quotes begins there.
func size(log string) int64 {
	info, err := os.Stat(log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// tail is the last lines of log after from, as the end of an error message; empty if there are none.
func tail(log string, from int64) string {
	f, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		from = max(from, end-tailBytes)
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "; the last lines of " + log + ":\n  " + strings.Join(lines, "\n  ")
}

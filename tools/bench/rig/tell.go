package rig

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Progress prints to stderr, for people who wait. The tables go to stdout.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// Fill returns the page with made between <!-- mark --> and <!-- /mark -->.
func Fill(page, mark, made string) (string, error) {
	begin, end := "<!-- "+mark+" -->\n", "<!-- /"+mark+" -->"
	head, rest, ok1 := strings.Cut(page, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return "", fmt.Errorf("there is no %s and %s", strings.TrimSpace(begin), end)
	}
	return head + begin + made + end + tail, nil
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// expand lists the histories of one side: a folder's, or those named with commas.
func expand(side string) ([]string, error) {
	info, err := os.Stat(side)
	if err != nil || !info.IsDir() {
		// A file whose name has a comma is itself.
		if err == nil {
			return []string{side}, nil
		}
		return strings.Split(side, ","), nil
	}
	paths, err := filepath.Glob(filepath.Join(side, "*.jsonl"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s: holds no .jsonl file", side)
	}
	return paths, err
}

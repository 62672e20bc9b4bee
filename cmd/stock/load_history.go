package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A historyFile is the file of --history. What was in it is kept until there is something new to write: a target that is down does not cost
// the history of the last run.
type historyFile struct {
	file    *os.File
	written bool
}

// openHistory opens path; of several strategies, with the name before the extension.
func openHistory(path, strategy string, several bool) (*historyFile, error) {
	if several {
		ext := filepath.Ext(path)
		path = strings.TrimSuffix(path, ext) + "." + strategy + ext
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--history: %w", err)
	}
	return &historyFile{file: file}, nil
}

// Write empties the file before the first byte.
func (h *historyFile) Write(p []byte) (int, error) {
	if !h.written {
		h.written = true
		// What is no regular file, such as a pipe, has nothing to empty.
		if info, err := h.file.Stat(); err == nil && info.Mode().IsRegular() {
			if err := h.file.Truncate(0); err != nil {
				return 0, err
			}
		}
	}
	return h.file.Write(p)
}

// Close removes the file if it is empty because nothing was written.
func (h *historyFile) Close() error {
	info, err := h.file.Stat()
	empty := err == nil && info.Mode().IsRegular() && info.Size() == 0
	err = h.file.Close()
	if empty && !h.written {
		err = errors.Join(err, os.Remove(h.file.Name()))
	}
	return err
}

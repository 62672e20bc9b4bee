package wire

import (
	"bytes"
	"log/slog"
)

// Secret returns a function that returns the content of a file without its last line break, and reads the file again
// when it changes.
func Secret(file File, log *slog.Logger) (func() string, error) {
	fresh, err := NewFresh([]File{file}, func(contents [][]byte) (string, error) {
		return string(bytes.TrimSuffix(bytes.TrimSuffix(contents[0], []byte("\n")), []byte("\r"))), nil
	}, log)
	if err != nil {
		return nil, err
	}
	return fresh.Get, nil
}

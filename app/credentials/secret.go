package credentials

import (
	"log/slog"
	"strings"
)

// Secret returns a function that returns what parse makes of a file, without the last line break in it. The file is
// read again when it changes. Errors of parse must not quote it.
func Secret[T any](file File, parse func(text string) (T, error), log *slog.Logger) (func() T, error) {
	fresh, err := NewFresh([]File{file}, func(contents [][]byte) (value T, err error) {
		value, err = parse(strings.TrimSuffix(strings.TrimSuffix(string(contents[0]), "\n"), "\r"))
		if err != nil {
			err = &FileError{file, err}
		}
		return value, err
	}, log)
	if err != nil {
		return nil, err
	}
	return fresh.Get, nil
}

// Text is the parse of a secret that is used as it is.
func Text(text string) (string, error) { return text, nil }

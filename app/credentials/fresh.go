package credentials

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// A File is a file, and the setting that names it.
type File struct{ Setting, Path string }

// A FileError reports a setting whose file cannot be used. Path is empty if the setting is.
type FileError struct {
	File
	Err error
}

func (e *FileError) Error() string {
	if e.Path == "" {
		return e.Setting + ": " + e.Err.Error()
	}
	return e.Setting + ": " + e.Path + ": " + e.Err.Error()
}

func (e *FileError) Unwrap() error { return e.Err }

// A Fresh value is made from files, and made again by the next Get after one of them has changed. It has no goroutine
// and no timer. A file counts as changed if its time, its size or its inode differs, so that a file that another one
// replaces within the same second is noticed, too.
//
// If the files cannot be read, or do not fit together, as halfway through a rotation, Get keeps the last value and logs
// one warning. It tries again at the next call.
type Fresh[T any] struct {
	files []File
	from  func(contents [][]byte) (T, error)
	log   *slog.Logger

	mu    sync.Mutex
	seen  []os.FileInfo // before value was made
	value T
	bad   string // the error that was logged; "": none
}

// NewFresh makes the value for the first time. If it cannot, the error is a FileError or what from returns.
func NewFresh[T any](files []File, from func(contents [][]byte) (T, error), log *slog.Logger) (*Fresh[T], error) {
	f := &Fresh[T]{files: files, from: from, log: log}
	if _, err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// Get returns the value of the files as they are now. It costs a stat of each file, about a microsecond.
func (f *Fresh[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch again, err := f.read(); {
	case err != nil && f.bad != err.Error():
		f.bad = err.Error()
		f.log.Warn("a file cannot be used: what was read before stays in use", "err", err)
	case again:
		f.bad = ""
		f.log.Info("files read again", "setting", f.files[0].Setting)
	}
	return f.value
}

// read makes the value if the files have changed, and reports whether it did. It looks at the files before it reads
// them, so that the next call notices a change in between.
func (f *Fresh[T]) read() (again bool, err error) {
	now, same := make([]os.FileInfo, len(f.files)), len(f.seen) > 0 && f.bad == ""
	for i, file := range f.files {
		if now[i], err = os.Stat(file.Path); err != nil {
			return false, unreadable(file, err)
		}
		same = same && os.SameFile(f.seen[i], now[i]) &&
			f.seen[i].Size() == now[i].Size() && f.seen[i].ModTime().Equal(now[i].ModTime())
	}
	if same {
		return false, nil
	}
	contents := make([][]byte, len(f.files))
	for i, file := range f.files {
		if contents[i], err = os.ReadFile(file.Path); err != nil {
			return false, unreadable(file, err)
		}
	}
	value, err := f.from(contents)
	if err != nil {
		return false, err
	}
	f.value, f.seen = value, now
	return true, nil
}

// unreadable returns a FileError with the reason alone, because package os repeats the path.
func unreadable(file File, err error) error {
	if reason, ok := errors.AsType[*fs.PathError](err); ok {
		err = reason.Err
	}
	return &FileError{file, err}
}

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

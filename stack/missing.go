package stack

import (
	"os"
	"os/exec"
	"path/filepath"
)

// A MissingError says that a program is not installed, and how to get it.
type MissingError struct {
	Program string // what was looked for
	Install string // what a shell takes to get it
}

func (e *MissingError) Error() string {
	return e.Program + " not found on PATH: " + e.Install
}

// find looks a program up on PATH, under any of its names, and beside it: an ordinary user of Debian has /usr/bin on PATH, but
// mariadbd and nginx live in /usr/sbin.
func find(install string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			path := filepath.Join(filepath.Dir(dir), "sbin", name)
			if filepath.IsAbs(path) && isProgram(path) {
				return path, nil
			}
		}
	}
	return "", &MissingError{names[0], install}
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

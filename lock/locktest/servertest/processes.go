package servertest

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Gone checks that a stack's folder is gone and that no process has to do with it.
func Gone(t testing.TB, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", dir, err)
	}
	for _, p := range Processes(dir) {
		t.Errorf("left running: %s", p)
	}
}

// Processes lists the processes that have dir in their command line or work there.
func Processes(dir string) []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range lines {
		text, err := os.ReadFile(file)
		cwd, _ := os.Readlink(filepath.Join(filepath.Dir(file), "cwd"))
		if err != nil || len(text) == 0 {
			continue // gone, or a zombie
		}
		if bytes.Contains(text, []byte(dir+"/")) || bytes.HasPrefix([]byte(cwd), []byte(dir+"/")) {
			found = append(found, filepath.Dir(file)+" "+string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
		}
	}
	return found
}

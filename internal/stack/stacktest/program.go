package stacktest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Program is the stock program for the tests of one package. It is built, with the race detector, when a test first
// asks for it. The zero value is ready.
type Program struct {
	// Plain builds it without the race detector, as go test -short always does. Then a process needs a fifth of the CPU
	// time. In an instance of a [stack.Stack] a race fails no test anyway, because no test reads its exit status or
	// log.
	Plain bool

	once sync.Once
	path string
	err  error
}

// Path builds the program once, and returns its path.
func (p *Program) Path(t testing.TB) string {
	t.Helper()
	p.once.Do(func() { p.path, p.err = build(p.Plain || testing.Short()) })
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.path
}

// build returns the program in the build cache, where the go command keeps what "go run" links. So only the first
// package waits for the linker. "go build" would link for each package, with some 7 s of CPU time.
func build(plain bool) (path string, err error) {
	args := []string{"run", "-race", "-exec", "echo", "example.com/stock/cmd/stock"}
	if plain {
		args = slices.Delete(args, 1, 2)
	}
	for range 2 { // the first run uses a temporary folder; later ones, the cache
		var said strings.Builder
		run := exec.Command("go", args...)
		run.Stderr = &said
		out, err := run.Output()
		if err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, &said)
		}
		path = strings.TrimSpace(string(out))
		if _, err = os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("build: there is no %s: Go 1.24 or later keeps what go run links", path)
}

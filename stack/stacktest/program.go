package stacktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// A Program is the stock program for the tests of one package. It is built, with the race detector, when a test first
// asks for it. The zero value is ready.
type Program struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Path builds the program once, and returns its path.
func (p *Program) Path() (string, error) {
	p.once.Do(func() { p.path, p.err = p.build() })
	return p.path, p.err
}

func (p *Program) build() (path string, err error) {
	if p.dir, err = os.MkdirTemp("", "stock-test-"); err != nil {
		return "", err
	}
	path = filepath.Join(p.dir, "stock")
	out, err := exec.Command("go", "build", "-race", "-o", path, "example.com/stock/cmd/stock").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}

// Remove removes what was built, if anything was. Call it at the end of TestMain.
func (p *Program) Remove() error {
	p.once.Do(func() { p.err = errors.New("the program was removed") })
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}

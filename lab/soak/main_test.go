package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := programDir(); err == nil {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

var programDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "stock-soak-") })

// program is the stock program, built with the race detector, once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := programDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "stock")
	out, err := exec.Command("go", "build", "-race", "-o", path, "../../cmd/stock").CombinedOutput()
	if err != nil {
		return path, fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

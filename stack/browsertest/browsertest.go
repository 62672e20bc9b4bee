// Package browsertest gives tests a real browser, as stacktest gives them real servers.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Open starts a browser for this test alone, and ends it with the test, or after four minutes. If none is installed,
// the test is skipped with the reason. With REQUIRE_BACKENDS=1 in the environment it fails.
func Open(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatal("REQUIRE_BACKENDS=1, but no chromium is on PATH")
		}
		t.Skip("no chromium on PATH (Debian: apt-get install chromium)")
	}
	// not t.TempDir: what the browser writes while it ends must not fail the test
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(dir),
		chromedp.WSURLReadTimeout(2*time.Minute),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("no-proxy-server", true))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, end := chromedp.NewContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(func() {
		cancel()
		_ = chromedp.Cancel(ctx) // waits until the browser is gone
		end()
		stop()
	})
	return ctx
}

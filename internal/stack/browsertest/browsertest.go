// Package browsertest gives tests a real browser, as servertest gives them real servers.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// tabBound is how long a test may use its tab.
const tabBound = 10 * time.Minute

// Shared is one browser for the tests of a package. It starts when a test first asks for it. A browser for each test
// would cost two seconds of CPU time each. The zero value is ready. In the test package:
//
//	var browser browsertest.Shared
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(browser.Around(m)) }
//
//	func TestIt(t *testing.T) { tab := browser.Open(t) ... }
type Shared struct {
	mu      sync.Mutex
	browser context.Context
	stop    func()
}

// A runner takes the place of testing.M.
type runner func() int

func (r runner) Run() int { return r() }

// Around wraps m: Run runs the tests, ends the browser and returns the exit code. Pass it to goleak.VerifyTestMain.
func (s *Shared) Around(m interface{ Run() int }) interface{ Run() int } {
	return runner(func() int {
		defer s.end()
		return m.Run()
	})
}

// end ends the browser, if it was started.
func (s *Shared) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
}

// Open starts a browser for this test alone, and ends it with the test. [Shared] is quicker for more than one test.
func Open(t *testing.T) context.Context {
	t.Helper()
	var alone Shared
	t.Cleanup(alone.end) // runs after the tab's cleanup
	return alone.Open(t)
}

// Open returns a tab for this test alone, which ends with the test, or after tabBound. Storage and cookies are not
// shared. If no browser is installed, the test is skipped with the reason. With REQUIRE_BACKENDS=1 in the environment
// it fails.
func (s *Shared) Open(t *testing.T) context.Context {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.browser == nil {
		s.start(t)
	}
	tab, end := chromedp.NewContext(s.browser, chromedp.WithNewBrowserContext())
	tab, cancel := context.WithTimeout(tab, tabBound)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // waits until the tab is gone
		cancel()
		end()
	})
	return tab
}

// start starts the browser, whose context outlives the test.
func (s *Shared) start(t *testing.T) {
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
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(dir),
		chromedp.WSURLReadTimeout(2*time.Minute),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("no-proxy-server", true),
		// The first two are chromedp's. The third saves the spare renderer process of each tab.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess"))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(ctx)
	s.stop = func() {
		_ = chromedp.Cancel(ctx) // waits until the browser is gone
		end()
		stop()
		_ = os.RemoveAll(dir)
	}
	if err := chromedp.Do(ctx); err != nil { // the first call starts it
		t.Fatal(err)
	}
	s.browser = ctx
}

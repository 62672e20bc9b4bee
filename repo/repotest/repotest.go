// Package repotest opens databases for tests.
package repotest

import (
	"context"
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/lock/locktest/servertest"
)

// Servers are shared by the tests of a package.
var Servers servertest.Shared

// Main runs the tests of a package. Its TestMain calls it.
func Main(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // tests wait for servers: more than one for each core
		panic(err)
	}
	goleak.VerifyTestMain(Servers.Around(m))
}

// Patience is how long a test waits for something that must happen, on a busy computer.
const Patience = time.Minute

// Short returns a ctx for one operation.
func Short(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	t.Cleanup(cancel)
	return ctx
}

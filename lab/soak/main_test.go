package soak

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/stack/stacktest"
)

var program stacktest.Program

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = program.Remove()
		os.Exit(code)
	}))
}

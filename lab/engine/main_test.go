package engine_test

import (
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
)

var program stacktest.Program

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

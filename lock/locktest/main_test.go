package locktest

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(contenderEnv) != "" {
		os.Exit(m.Run()) // some of the broken locks leave goroutines on purpose
	}
	goleak.VerifyTestMain(m)
}

package local_test

import (
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMutexWithinOneProcess(t *testing.T) {
	m := &local.Mutex{}
	locktest.Run(t, lock.Promise{Exclusive: true, Blocking: true, Fair: true}, func(testing.TB) lock.Locker { return m })
}

func TestNone(t *testing.T) {
	locktest.Run(t, lock.Promise{}, func(testing.TB) lock.Locker { return &local.None{} })
}

package local_test

import (
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/locktest"
	"example.com/stock/strategy"
)

func TestContender(t *testing.T) { locktest.Contend(t, benches(t)...) }

// The strategies without a server: what they promise ends with the process.
func TestStrategiesConform(t *testing.T) { locktest.Conform(t, benches(t)...) }

func benches(t *testing.T) []locktest.Harness {
	mutex := &local.Mutex{} // one process, so every Locker is the same
	return []locktest.Harness{
		bench(t, "none", &local.None{}),
		bench(t, "local-mutex", mutex),
	}
}

func bench(t *testing.T, name string, l lock.Locker) locktest.Harness {
	s, err := strategy.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return locktest.Harness{
		Name: name, Promise: s.Promise,
		Open: func([]string, time.Duration) (lock.Locker, func() error, error) {
			return l, func() error { return nil }, nil
		},
	}
}

package driver

import (
	"context"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// MaxKey is the longest key, in bytes. Every server has room for such a name, also ZooKeeper, where an escaped key is
// three times as long.
const MaxKey = 1024

// MinLease is the shortest lease that an option may set. A shorter one is over before an answer has come.
const MinLease = 10 * time.Millisecond

// CheckKey returns an error that matches ErrInvalid if no lock accepts key.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("lock: %w: the key is empty", lock.ErrInvalid)
	case len(key) > MaxKey:
		return fmt.Errorf("lock: %w: the key has %d bytes, and may have %d", lock.ErrInvalid, len(key), MaxKey)
	}
	return nil
}

// MayAcquire is what a driver calls before it begins an acquisition. It returns an error if the key is invalid or if
// ctx has ended. In the second case the server was not asked, so the error is the cause alone.
func MayAcquire(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("acquire lock %q: %w", key, context.Cause(ctx))
	}
	return nil
}

// AtLeast returns an error that matches ErrInvalid and names the option if d, the value of this option, is less than
// least.
func AtLeast(option string, d, least time.Duration) error {
	if d >= least {
		return nil
	}
	return fmt.Errorf("lock: %w: the option %s is %v, and must be at least %v", lock.ErrInvalid, option, d, least)
}

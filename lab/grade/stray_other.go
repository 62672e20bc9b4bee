//go:build !linux

package grade

func adopt() error { return nil }

// killStrays does nothing: the environment of other processes cannot be read everywhere.
func killStrays(string) {}

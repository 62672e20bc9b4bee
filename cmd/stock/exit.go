package main

import "fmt"

// An exitError ends the program with its own exit status. err is nil if everything was printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.code, e.err) }
func (e exitError) Unwrap() error { return e.err }

package main

import (
	"errors"
	"fmt"
)

// An exitError ends the program with its own exit status. err is nil if everything was printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.code, e.err) }
func (e exitError) Unwrap() error { return e.err }

// ended returns the exit status of a command that returned err, and what is to be said of it; nil: nothing.
func ended(err error) (status int, said error) {
	if exit, is := errors.AsType[exitError](err); is {
		return exit.code, exit.err
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

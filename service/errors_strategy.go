package service

import "errors"

// What can go wrong with a sale by a strategy alone.
var (
	ErrUnknownStrategy = errors.New("unknown strategy")
	// ErrOvertaken: a holder whose lease was over has written since the read. Nothing was written.
	ErrOvertaken = errors.New("overtaken: another wrote past the lock since the stock was read")
	// ErrNotPaused: no sale of that request waits at a point of the lab.
	ErrNotPaused = errors.New("no such pause")
	// ErrTooOld: there is no such order, but orders as old as this one may have been removed.
	ErrTooOld = errors.New("order is too old to tell")
	// ErrKeyInFlight: the first request with the key is still under way in this instance.
	ErrKeyInFlight = errors.New("a request with this idempotency key is under way")
)

package lock

import "context"

type wokenKey struct{}

// OnWake makes a ctx that calls woken each time that an Acquire under it is woken: a server told its waiter that something had happened
// to the key, and the waiter looked whether its turn had come. Of n waiters, a lock that wakes them all at every release does so
// n+(n-1)+...+1 times until the last one is served, and one that wakes the next in line n times. woken must be quick and
// safe for concurrent use; those of the ctx around it are called too.
//
// What is not counted: a look because time passed, and a turn that is handed over inside the process (see [HandOver]).
func OnWake(ctx context.Context, woken func()) context.Context {
	if outer, ok := ctx.Value(wokenKey{}).(func()); ok {
		inner := woken
		woken = func() { inner(); outer() }
	}
	return context.WithValue(ctx, wokenKey{}, woken)
}

// Woken is for drivers: the waiter of ctx has been woken.
func Woken(ctx context.Context) {
	if woken, ok := ctx.Value(wokenKey{}).(func()); ok {
		woken()
	}
}

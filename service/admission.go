package service

import (
	"context"
)

// An Admission says how a call of a store may queue in front of it when it is busy. The zero value queues until ctx
// ends, and may be refused.
//
// It travels in ctx beside the deadline, and like that for every call in its scope: each of them may have to queue.
type Admission struct {
	// Begun is for what is left of a sale that has begun: it holds a lock for which others wait, or has read what
	// it is about to write. A store that is overloaded refuses newcomers, not those: to refuse them would waste
	// what was done, and keep the others waiting.
	Begun bool
	// Wait ends the wait in the queue, and not what has been let in: a client that goes away leaves the queue, but a
	// write that has begun is finished. nil: ctx ends both.
	Wait context.Context
}

type admissionKey struct{}

// WithAdmission makes a ctx with a.
func WithAdmission(ctx context.Context, a Admission) context.Context {
	return context.WithValue(ctx, admissionKey{}, a)
}

// AdmissionOf is for stores: the Admission of ctx.
func AdmissionOf(ctx context.Context) Admission {
	a, _ := ctx.Value(admissionKey{}).(Admission)
	return a
}

// Begin makes a ctx with the Admission of what has begun.
func Begin(ctx context.Context) context.Context { return WithAdmission(ctx, Admission{Begun: true}) }

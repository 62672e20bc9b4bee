package lock

import "embed"

//go:embed *.go driver redislock/*.go redislock/*.lua redislock/internal
var source embed.FS

// Source returns the files of this package, of lock/driver and of the locks on Redis without package teaching, for a
// program that copies them into another module: only this folder can embed them.
func Source() embed.FS { return source }

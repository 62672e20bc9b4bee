//go:build !race

package locktest

// traceRounds is how often each worker of Traces acquires: ten thousand times and some in all, without those that are
// given up. The slowest lock takes up to half a minute.
const traceRounds = 700

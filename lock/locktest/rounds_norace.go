//go:build !race

package locktest

// traceRounds is how often each worker of Traces acquires: somewhat more than ten thousand times in all, not counting
// workers that give up. The slowest lock takes up to half a minute.
const traceRounds = 700

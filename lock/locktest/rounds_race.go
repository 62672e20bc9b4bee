//go:build race

package locktest

// traceRounds is how often each worker of Traces acquires: two thousand times in all. Under the race detector an
// acquisition costs ten times as much. docs/refresh runs without the detector, and so counts ten thousand.
const traceRounds = 140

//go:build race

package locktest

// traceRounds is how often each worker of Traces acquires: two thousand times in all. An acquisition costs ten times as
// much under the race detector, and thousands of them more than all the rest of a package's tests. Ten thousand are
// what docs/refresh counts, without the detector.
const traceRounds = 140

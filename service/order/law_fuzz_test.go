package order

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func FuzzLaw(f *testing.F) {
	f.Add([]byte("reserve, confirm, cancel, expire"))
	f.Fuzz(func(t *testing.T, program []byte) {
		w := newWorld("a", "b")
		r := rand.New(&script{bytes: program})
		for i := range min(len(program), 200) {
			if err := w.random(r, fmt.Sprint("id", i)); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
	})
}

// A script is a source of randomness that a fuzzer can steer.
type script struct {
	bytes []byte
	at    uint64
}

func (s *script) Uint64() uint64 {
	s.at++
	if len(s.bytes) == 0 {
		return s.at
	}
	b := uint64(s.bytes[s.at%uint64(len(s.bytes))])
	return (b + s.at) * 0x9e3779b97f4a7c15
}

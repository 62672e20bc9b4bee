package access_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// What a token costs: verified anew, as the first of each customer is, and remembered.
func BenchmarkCaller(b *testing.B) {
	o := &origin{text: jwks("ed", "ec", "rs")}
	d, keys := doorOf(b, o.read)
	if err := keys.Read(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"rs", "ec", "ed"} {
		b.Run(name+"/anew", func(b *testing.B) {
			tokens := make([]string, 0, b.N)
			for i := range b.N {
				tokens = append(tokens, sign(b, name, with("sub", fmt.Sprint("c-", i))))
			}
			b.ResetTimer()
			began := cpu()
			for _, token := range tokens {
				if _, err := ask(d, token); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-began)/float64(b.N), "cpu-ns/op")
		})
		b.Run(name+"/remembered", func(b *testing.B) {
			token := sign(b, name, good())
			began := cpu()
			for b.Loop() {
				if _, err := ask(d, token); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpu is the CPU time of this process, which a busy computer does not make longer.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

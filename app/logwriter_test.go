package app_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"example.com/stock/app"
)

// A pipe takes what is written when its reader lets it.
type pipe struct {
	mu     sync.Mutex
	text   strings.Builder
	writes int
	hold   chan struct{} // nil: it takes everything
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.hold != nil {
		<-p.hold
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	return p.text.Write(b)
}

// Whoever logs does not wait for the reader of the log. Close writes all that waits, in order, and few writes do.
func TestLogIsWrittenInTheBackground(t *testing.T) {
	p := &pipe{hold: make(chan struct{})}
	w := app.NewLogWriter(p)
	var want strings.Builder
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	close(p.hold)
	for range 2 {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if p.text.String() != want.String() || w.Dropped() != 0 {
		t.Errorf("%d bytes, want %d; %d dropped", p.text.Len(), want.Len(), w.Dropped())
	}
	if p.writes > 3 {
		t.Errorf("%d writes for lines that waited together", p.writes)
	}
	if _, err := fmt.Fprintln(w, "after the end"); err != nil || !strings.HasSuffix(p.text.String(), "after the end\n") {
		t.Errorf("a line after Close is lost: %v", err)
	}
}

// A pipe that nobody reads costs lines, which are counted, and not memory. No line is cut.
func TestLogIsBounded(t *testing.T) {
	p := &pipe{hold: make(chan struct{})}
	w := app.NewLogWriter(p)
	line := strings.Repeat("x", 1023) + "\n"
	const lines = 5000
	for range lines {
		if _, err := w.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Dropped() < lines/2 {
		t.Errorf("%d of %d lines dropped", w.Dropped(), lines)
	}
	close(p.hold)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := uint64(strings.Count(p.text.String(), line)); got+w.Dropped() != lines || p.text.Len() != int(got)*len(line) {
		t.Errorf("%d whole lines of %d bytes in all, and %d dropped", got, p.text.Len(), w.Dropped())
	}
}

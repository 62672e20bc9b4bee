package mysqllock

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"example.com/stock/internal/stack/wire"
)

// A proxy stands between a lock and its server, breaks what it is told to, and writes down the requests.
type proxy struct {
	*wire.Proxy

	mu       sync.Mutex
	requests []string
	snare    *wire.Snare // the last that was set
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	w, err := wire.Listen(server, wire.MySQL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	p := &proxy{Proxy: w}
	w.Set(wire.Trap{Match: func(message []byte) bool {
		if text, ok := requestText(message); ok {
			p.mu.Lock()
			p.requests = append(p.requests, string(text))
			p.mu.Unlock()
		}
		return false // it only looks
	}})
	return p
}

// requestText returns the text of a message that is a request, and not a part of the log-in or the good-bye.
func requestText(message []byte) ([]byte, bool) {
	const header, quit = 4, 1
	if len(message) <= header || message[3] != 0 || message[header] == quit {
		return nil, false
	}
	return message[header+1:], true
}

// reset takes away a trap that has not sprung, and forgets the requests.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
	if p.snare != nil {
		select {
		case <-p.snare.Sprung(): // what it holds is not delivered
		default:
			p.snare.Release()
		}
	}
}

// at does what a trap does to the n-th request from now on, 1 being the next.
func (p *proxy) at(n int, do wire.Action) *wire.Snare {
	p.reset()
	snare := p.Set(wire.Trap{Skip: n - 1, Do: do})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snare = snare
	return snare
}

// cutEach calls do for each of its requests, and cuts off the n-th; at last none is left to cut.
func (p *proxy) cutEach(do func(n int)) {
	for n, cut := 1, true; cut; n++ {
		snare := p.at(n, wire.Cut)
		do(n)
		select {
		case <-snare.Sprung():
		default:
			cut = false
		}
		p.reset()
	}
}

// seen returns the requests since the last reset.
func (p *proxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// fail makes the server answer with error number to requests that contain word, the first times of them: it changes
// their text to a SIGNAL of the same length. The result counts the requests that contain word, and stop ends it.
func (p *proxy) fail(word string, number uint16, times int) (count func() int, stop func()) {
	var mu sync.Mutex
	n, stopped := 0, false
	p.Set(wire.Trap{Match: func(message []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		text, ok := requestText(message)
		if !ok || stopped || !strings.Contains(string(text), word) {
			return false
		}
		if n++; n <= times {
			signal := fmt.Sprintf("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = %d", number)
			copy(text, signal+strings.Repeat(" ", len(text)-len(signal)))
		}
		return false
	}})
	count = func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
	stop = func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
	return count, stop
}

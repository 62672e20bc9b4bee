package class

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// masterDown is the answer of a master that gives none.
const masterDown = "down"

// askMasters asks each master of Redlock who has the key of a SKU. An answer is the holder's request, empty, or
// masterDown.
func (c *Class) askMasters(ctx context.Context, sku string) []string {
	names := c.masters()
	answers := make([]string, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { answers[i] = askMaster(ctx, c.stack.Server(name).Addr, "redlock:{"+sku+"}") })
	}
	all.Wait()
	return answers
}

// askMaster reads a key by Redis's own protocol. Its value is a random number, a blank, and the owner: the instance and
// the request.
func askMaster(ctx context.Context, addr, key string) string {
	const bound = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return masterDown
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(bound)); err != nil {
		return masterDown
	}
	fmt.Fprintf(conn, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
	in := bufio.NewReader(conn)
	switch head, err := in.ReadString('\n'); {
	case err != nil || !strings.HasPrefix(head, "$"):
		return masterDown
	case strings.HasPrefix(head, "$-1"):
		return ""
	}
	value, err := in.ReadString('\n')
	if err != nil {
		return masterDown
	}
	return strings.TrimSpace(value[strings.LastIndexByte(value, '/')+1:])
}

// noteAnswers records the masters' answers if they have changed.
func (c *Class) noteAnswers(run int, last *[]string) {
	now := c.askMasters(c.ctx, skuOf(run))
	if !slices.Equal(now, *last) {
		*last = now
		c.note(RunEvent{Kind: answersOf, Run: run, Answers: now})
	}
}

// answersFor returns how many masters say that a request has the lock.
func (s *State) answersFor(req string) (n int) {
	for _, answer := range s.ofRun[answersOf].Answers {
		if answer == req {
			n++
		}
	}
	return n
}

package main

import (
	"io"
	"net"
	"sync"
)

// A line forwards connections to a server, which can be another one from some moment on.
type line struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex
	target string
	open   []net.Conn
}

// lineTo opens a line to target, a host:port.
func (b *bed) lineTo(target string) *line {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	b.must("open a line", err)
	n := &line{listener: l, target: target}
	n.serving.Go(n.accept)
	b.after(func() {
		_ = l.Close()
		n.to("")
		n.serving.Wait()
	})
	return n
}

// to ends all connections. Further ones go to target.
func (n *line) to(target string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.target = target
	for _, c := range n.open {
		_ = c.Close()
	}
	n.open = nil
}

func (n *line) accept() {
	for {
		client, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		server, err := net.Dial("tcp", n.target)
		if err != nil {
			_ = client.Close()
		} else {
			n.open = append(n.open, client, server)
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				n.serving.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
		n.mu.Unlock()
	}
}

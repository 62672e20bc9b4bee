package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"example.com/stock/deploy"
)

const installHAProxy = "apt-get install haproxy"

// FrontGalera starts HAProxy in front of a Galera cluster. Its URL is a DSN; its rules are those of the shipped
// deploy/ha/haproxy.cfg: all connections go to the first node until that is down, then to another one, and they do not
// return by themselves. A node that is killed, or has lost its cluster, is noticed after 1.5 s, one that is silent
// after 4.5 s. Without haproxy the error is a MissingError.
func (s *Stack) FrontGalera(ctx context.Context, g *Galera) (*Server, error) {
	db, err := openMariaDB(g.Nodes[0].Addr)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE USER IF NOT EXISTS "+deploy.HAProxyUser+"@'127.0.0.1'"); err != nil {
		return nil, err
	}
	return s.open(ctx, s.name("haproxy"), func(ctx context.Context, name, dir string, port int) (*Server, error) {
		program, err := find(installHAProxy, "haproxy")
		if err != nil {
			return nil, err
		}
		config := filepath.Join(dir, "haproxy.cfg")
		if err := os.WriteFile(config, deploy.HAProxy(local(port), addrs(g.Nodes)), 0o600); err != nil {
			return nil, err
		}
		cmd := command{path: program, dir: dir, log: filepath.Join(s.Dir, name+".log")}
		cmd.args = []string{"-db", "-f", config}
		return &Server{
			Log: cmd.log, URL: "root@tcp(" + local(port) + ")/stock",
			launch: func() (run, error) { return cmd.start(syscall.SIGKILL) },
			// The reply comes from a node, so the address of that node's data is known to be one of the stack.
			ready: func(ctx context.Context, _ int) error { return mariadbReady(ctx, local(port), s.Dir) },
		}, nil
	})
}

// Behind returns the node to which new connections to proxy, of FrontGalera, lead.
func (g *Galera) Behind(ctx context.Context, proxy *Server) (*Server, error) {
	db, err := openMariaDB(proxy.Addr)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var port int
	if err := db.QueryRowContext(ctx, "SELECT @@port").Scan(&port); err != nil {
		return nil, fmt.Errorf("ask %s for its node: %w", proxy.Name, err)
	}
	for _, node := range g.Nodes {
		if node.Addr == local(port) {
			return node, nil
		}
	}
	return nil, fmt.Errorf("%s leads to %s, which is no node of its cluster", proxy.Name, local(port))
}

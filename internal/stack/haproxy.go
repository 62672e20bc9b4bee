package stack

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"example.com/stock/deploy"
	"example.com/stock/lock/locktest/server"
)

const installHAProxy = "apt-get install haproxy"

// FrontGalera starts HAProxy in front of a Galera cluster. Its URL is a DSN; its rules are those of the shipped
// deploy/ha/haproxy.cfg: all connections go to the first node until that is down, then to another one, and they do not
// return by themselves. A node that is killed, or has lost its cluster, is noticed after 1.5 s, one that is silent
// after 4.5 s. Without haproxy the error is a MissingError.
func (s *Stack) FrontGalera(ctx context.Context, g *server.Galera) (*server.Server, error) {
	var nodes []string
	for _, node := range g.Nodes {
		nodes = append(nodes, node.Addr)
	}
	db, err := server.OpenMariaDB(g.Nodes[0].Addr)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE USER IF NOT EXISTS "+deploy.HAProxyUser+"@'127.0.0.1'"); err != nil {
		return nil, err
	}
	build := func(_ context.Context, name, dir string, port int) (*server.Server, error) {
		program, err := server.Find(installHAProxy, "haproxy")
		if err != nil {
			return nil, err
		}
		config := filepath.Join(dir, "haproxy.cfg")
		if err := os.WriteFile(config, deploy.HAProxy(server.Local(port), nodes), 0o600); err != nil {
			return nil, err
		}
		cmd := server.Command{Path: program, Dir: dir, Log: filepath.Join(s.Dir, name+".log")}
		cmd.Args = []string{"-db", "-f", config}
		return &server.Server{
			Log: cmd.Log, URL: "root@tcp(" + server.Local(port) + ")/stock",
			Launch: func() (server.Run, error) { return cmd.Start(syscall.SIGKILL) },
			// The reply comes from a node, so the address of that node's data is known to be one of the stack.
			Ready: func(ctx context.Context, _ int) error {
				return server.MariaDBReady(ctx, server.Local(port), s.Dir)
			},
		}, nil
	}
	return s.Open(ctx, s.Name("haproxy"), build)
}

package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// galeraLibraries are the places of Galera's library, which Debian's mariadb-server brings with it.
var galeraLibraries = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so"}

// galera is the first part of the name of a node.
const galera = "galera"

// A Galera is a cluster of MariaDB nodes. Each accepts writes, and is a [Server] of the stack that can be paused,
// killed and restarted. The others exclude a node that does not answer for 5 s (evs.suspect_timeout); until then
// commits wait.
type Galera struct {
	Nodes []*Server // galera, galera-2, ...
}

// StartGalera starts n nodes and returns when each is in the cluster, which takes some 4 s for each node. Without
// MariaDB or Galera's library the error is a MissingError, and [Stack.Missing] has the reason. ctx bounds the start
// only. provider has further options of Galera, such as "evs.suspect_timeout=PT3S".
func (s *Stack) StartGalera(ctx context.Context, n int, provider ...string) (*Galera, error) {
	fail := func(err error) (*Galera, error) { return nil, fmt.Errorf("start a Galera cluster: %w", err) }
	library := slices.IndexFunc(galeraLibraries, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
	if library < 0 {
		missing := &MissingError{Program: "libgalera_smm.so", Install: "apt-get install galera-4"}
		s.miss(galera, missing.Error())
		return fail(missing)
	}
	members := make([]galeraNode, n)
	var addrs []string
	for i := range members {
		members[i].library, members[i].options = galeraLibraries[library], strings.Join(provider, ";")
		for _, port := range []*int{&members[i].group, &members[i].transfer, &members[i].snapshot} {
			var err error
			if *port, err = s.reserve(); err != nil {
				return fail(err)
			}
		}
		addrs = append(addrs, Local(members[i].group))
	}
	// A node that joins with the data of the first as they were when it stopped needs no snapshot of them, only the
	// changes since then. The snapshot would be copied by an rsync that serves as another user.
	members[0].first = true
	first, err := s.Open(ctx, s.Name(galera), s.galeraMember(&members[0], addrs))
	if err != nil {
		return fail(err)
	}
	g := &Galera{Nodes: []*Server{first}}
	if err := first.Stop(); err != nil {
		return fail(err)
	}
	data := func(name string) string { return filepath.Join(s.Dir, name, "data") }
	if err := os.Remove(filepath.Join(data(first.Name), "galera.cache")); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	var names []string
	for range n - 1 {
		name := s.Name(galera)
		names = append(names, name)
		if err := os.CopyFS(data(name), os.DirFS(data(first.Name))); err != nil {
			return fail(err)
		}
		mark := filepath.Join(s.Dir, name, "initialised")
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return fail(err)
		}
	}
	if err := first.Restart(ctx); err != nil {
		return fail(err)
	}
	members[0].first = false // after its next stop it joins the others
	for i, name := range names {
		node, err := s.Open(ctx, name, s.galeraMember(&members[i+1], addrs))
		if err != nil {
			return fail(err)
		}
		g.Nodes = append(g.Nodes, node)
	}
	return g, nil
}

// A galeraNode has what a node needs besides its own address.
type galeraNode struct {
	library, options          string
	group, transfer, snapshot int  // ports: of the group, of the changes that a node missed, of the data as a whole
	first                     bool // it starts a cluster, and joins none
}

// galeraMember prepares a node of the cluster that has members at addrs.
func (s *Stack) galeraMember(m *galeraNode, addrs []string) Builder {
	return func(ctx context.Context, name, dir string, port int) (*Server, error) {
		cmd, err := s.mariadbCommand(ctx, name, dir, port)
		if err != nil {
			return nil, err
		}
		cmd.Args = append(cmd.Args, "--wsrep-on=ON", "--wsrep-provider="+m.library,
			"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-cluster-name=stock",
			"--wsrep-cluster-address=gcomm://"+strings.Join(addrs, ","), "--wsrep-node-name="+name,
			"--wsrep-node-address="+Local(m.group), "--wsrep-sst-method=rsync",
			"--wsrep-sst-receive-address="+Local(m.snapshot),
			"--wsrep-provider-options=gmcast.listen_addr=tcp://"+Local(m.group)+";ist.recv_addr="+Local(m.transfer)+
				";gcache.size=32M;"+m.options,
		)
		// The rsync of a node that joins runs as nobody if root has started it, and writes a file there.
		if err := os.Chmod(filepath.Join(dir, "data"), 0o777); err != nil {
			return nil, err
		}
		launch := func() (Run, error) {
			now := cmd
			if m.first {
				now.Args = append(slices.Clone(now.Args), "--wsrep-new-cluster")
			} else if position, err := galeraPosition(s.life, cmd); err != nil {
				return nil, err
			} else if position != "" {
				now.Args = append(slices.Clone(now.Args), "--wsrep-start-position="+position)
			}
			return now.Start(syscall.SIGKILL)
		}
		return &Server{
			Log: cmd.Log, URL: "root@tcp(" + Local(port) + ")/stock", Launch: launch,
			Ready: func(ctx context.Context, _ int) error { return galeraReady(ctx, Local(port), dir) },
		}, nil
	}
}

// galeraPosition returns the last change that a node has, also after it was killed, or "" if it has none: then the
// node asks for all data. It does what mysqld_safe does before a start.
func galeraPosition(ctx context.Context, cmd Command) (string, error) {
	cmd.Args, cmd.Log = append(slices.Clone(cmd.Args), "--wsrep-recover"), cmd.Log+".recovery"
	if err := os.WriteFile(cmd.Log, nil, 0o600); err != nil {
		return "", err
	}
	if err := cmd.Finish(ctx); err != nil {
		return "", err
	}
	text, err := os.ReadFile(cmd.Log)
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(text), "Recovered position: ")
	position, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(position), nil
}

// galeraReady is [MariaDBReady] for a node, which must be in its cluster and have all changes.
func galeraReady(ctx context.Context, addr, dir string) error {
	if err := MariaDBReady(ctx, addr, dir); err != nil {
		return err
	}
	db, err := OpenMariaDB(addr)
	if err != nil {
		return err
	}
	defer db.Close()
	var name, state string
	err = db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'wsrep_local_state_comment'").Scan(&name, &state)
	if err == nil && state != "Synced" {
		err = fmt.Errorf("%s is not in its cluster: %s", addr, state)
	}
	return err
}

// Isolate cuts a node off from the others, or with on = false lets it find them again. Its clients reach it as before.
// It leaves the cluster's majority, and refuses them, when it has heard of no other node for evs.suspect_timeout.
func (g *Galera) Isolate(ctx context.Context, node *Server, on bool) error {
	db, err := OpenMariaDB(node.Addr)
	if err != nil {
		return err
	}
	defer db.Close()
	isolate := 0
	if on {
		isolate = 1
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=%d'", isolate))
	if err != nil {
		return fmt.Errorf("isolate %s: %w", node.Name, err)
	}
	return nil
}

// Behind returns the node to which new connections to a proxy lead.
func (g *Galera) Behind(ctx context.Context, proxy *Server) (*Server, error) {
	db, err := OpenMariaDB(proxy.Addr)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var port int
	if err := db.QueryRowContext(ctx, "SELECT @@port").Scan(&port); err != nil {
		return nil, fmt.Errorf("ask %s for its node: %w", proxy.Name, err)
	}
	for _, node := range g.Nodes {
		if node.Addr == Local(port) {
			return node, nil
		}
	}
	return nil, fmt.Errorf("%s leads to %s, which is no node of its cluster", proxy.Name, Local(port))
}

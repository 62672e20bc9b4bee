package stack

import (
	"errors"
	"strings"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// A Link is the way from some clients to the backends of a stack: a proxy before each one that runs. A fault of the
// link is a partition between these clients and a backend, and others do not notice.
type Link map[server.Kind]*wire.Proxy

// OpenLink opens a link to the first backend of each kind. Close it after its clients have ended.
func OpenLink(s *server.Stack) (Link, error) {
	l := make(Link)
	for _, kind := range Kinds() {
		backend := s.Server(string(kind))
		if backend == nil {
			continue
		}
		proxy, err := wire.Listen(backend.Addr, Protocol(kind))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l[kind] = proxy
	}
	return l, nil
}

// Protocol returns what a proxy before a backend speaks. A kind that it does not know, such as a node of Galera, speaks
// MySQL's.
func Protocol(kind server.Kind) wire.Protocol {
	switch kind {
	case server.Redis:
		return wire.Redis()
	case server.ZooKeeper:
		return wire.ZooKeeper()
	}
	return wire.MySQL()
}

// Close breaks the link. What is held back is lost.
func (l Link) Close() (err error) {
	for _, proxy := range l {
		err = errors.Join(err, proxy.Close())
	}
	return err
}

// Through returns the URL of a backend through a proxy.
func Through(proxy *wire.Proxy, backend *server.Server) string {
	return strings.Replace(backend.URL, backend.Addr, proxy.Addr(), 1)
}

// EnvVia returns the environment that makes an instance of the demonstration use a link, for Serve.
func (s *Stack) EnvVia(l Link) (env []string) {
	for _, kind := range Kinds() {
		if l[kind] != nil {
			env = append(env, Setting(kind, Through(l[kind], s.Server(string(kind)))))
		}
	}
	return env
}

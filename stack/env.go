package stack

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Env is what an instance is told of the backends, as KEY=value: the first of each kind, since several addresses of Redis would
// mean a cluster. A backend that the stack does not have is told as empty, so that no instance goes to the default address, where
// a server may be that is not ours.
func (s *Stack) Env() []string {
	url := func(kind Kind) string {
		if server := s.Server(string(kind)); server != nil {
			return server.URL
		}
		return ""
	}
	var masters []string
	for i := 2; s.Server(fmt.Sprintf("%s-%d", Redis, i)) != nil; i++ {
		masters = append(masters, s.Server(fmt.Sprintf("%s-%d", Redis, i)).URL)
	}
	return []string{
		"STOCK_REDIS_ADDRS=" + url(Redis),
		"STOCK_REDLOCK_ADDRS=" + strings.Join(masters, ","),
		"STOCK_ZOOKEEPER_HOSTS=" + url(ZooKeeper),
		"STOCK_MYSQL_DSN=" + url(MySQL),
	}
}

// given lists the backends that instances are told of.
func (s *Stack) given() []Kind {
	return slices.DeleteFunc([]Kind{Redis, ZooKeeper, MySQL}, func(kind Kind) bool { return s.Server(string(kind)) == nil })
}

// foreignEnv is the environment without STOCK_*: settings of a developer's shell are not meant for these instances.
func foreignEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "STOCK_") })
}

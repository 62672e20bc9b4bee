package zklock

import (
	"testing"

	"example.com/stock/lock"
)

// A kind is one of the locks of this package, for what must be true of all.
type kind struct {
	name   string
	open   func(*Session) inspectable
	folder func(testing.TB) string // of the test's key
}

type inspectable interface {
	lock.Locker
	lock.Inspector
	lock.Evictor
	lock.Lister
}

func kinds() []kind {
	return []kind{
		{"zk-sequential", func(s *Session) inspectable { return NewSequential(s) }, folderOf},
		{"zk-ephemeral", func(s *Session) inspectable { return NewEphemeral(s) }, herdFolderOf},
	}
}

func herdFolderOf(t testing.TB) string { return folderOf(t) + herdFolder }

package stack

import "time"

// A Kind is a sort of backend.
type Kind string

// The backends that a Stack can start.
const (
	Redis     Kind = "redis"
	ZooKeeper Kind = "zookeeper"
	MySQL     Kind = "mysql" // MariaDB
)

// Options says what a Stack is made of. The zero value wants no backend.
type Options struct {
	Want []Kind // backends to start; the same twice makes two
	AOF  bool   // Redis keeps an append-only file and has its data after a restart, also after Kill; default: it has none

	// Clocks gives each Redis a wall clock of its own, which Server.SetClock moves. It needs libfaketime: see CheckClocks. Without that, a
	// stand-in takes Redis' place.
	Clocks bool

	Binary string   // the stock program; default: os.Executable()
	Env    []string // KEY=value for every instance, after the addresses of the backends; STOCK_* of this process are not passed on

	// AnyPort keeps instances off the usual ports, on which a program of the user's may want to listen while one of them is dead: what
	// keeps other stacks off does not keep that off.
	AnyPort bool

	Parent string // where the temporary folder is made; default: os.TempDir()
	Keep   bool   // Stop leaves the folder, with logs and data

	Progress func(Event) // told what happens, one event at a time; default: nobody is
}

// An Event is a step of a start or a stop.
type Event struct {
	Server string        // Server.Name
	What   string        // starting, ready, missing, failed, stopped
	Took   time.Duration // since the step before it; 0 for starting and missing
	Detail string        // address, or the reason
}

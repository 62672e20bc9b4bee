package class

import (
	"time"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// slow is the delay of a slow server, in each direction.
const slow = 150 * time.Millisecond

// Fault applies an act to an instance or a server: freeze (SIGSTOP), wake, kill (SIGKILL), start, delay, cut (the
// network between the instances and the server), mend. A start continues after Fault has returned.
func (c *Class) Fault(name, act string) error {
	server, proxy := c.stack.Server(name), c.link[server.Kind(name)]
	if server == nil || name == "nginx" {
		return wrong("server", "body")
	}
	switch act {
	case "freeze":
		return c.become(name, "frozen", server.Pause)
	case "wake":
		return c.become(name, "up", server.Resume)
	case "kill":
		return c.become(name, "killed", server.Kill)
	case "start":
		c.start(server)
		return nil
	case "delay", "cut", "mend":
		if proxy != nil {
			c.wire(name, proxy, act)
			return nil
		}
	}
	return wrong("act", "body")
}

// become records the state before the signal, so that later steps of the instance do not seem to precede it.
func (c *Class) become(name, state string, do func() error) error {
	if state == "up" {
		if err := do(); err != nil {
			return err
		}
		c.stand(name, state)
		return nil
	}
	before := c.stateOf(name)
	c.stand(name, state)
	if err := do(); err != nil {
		c.stand(name, before)
		return err
	}
	return nil
}

// start starts a server that was killed, which takes seconds.
func (c *Class) start(server *server.Server) {
	if c.stateOf(server.Name) != "killed" {
		return
	}
	c.stand(server.Name, "starting")
	c.owned.Go(func() {
		if err := server.Restart(c.ctx); err != nil {
			c.stand(server.Name, "killed")
			return
		}
		c.stand(server.Name, "up")
		if c.pausedAll() {
			_ = c.lab(server.Name, "PUT", "/v1/lab/pauses?pause="+everyPoint)
		}
	})
}

func (c *Class) pausedAll() (on bool) {
	c.look(func(s *State) { on = s.latest[pausing].On })
	return on
}

func (c *Class) wire(name string, proxy *wire.Proxy, act string) {
	proxy.Mend()
	switch act {
	case "delay":
		proxy.Slow(slow / 2)
	case "cut":
		proxy.Sever()
	}
	c.stand(name, map[string]string{"delay": "slow", "cut": "cut", "mend": "up"}[act])
}

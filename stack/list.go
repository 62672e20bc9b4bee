package stack

import "slices"

// add makes a server that is ready one of the stack's.
func (s *Stack) add(server *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, server)
}

// drop stops a server and forgets it.
func (s *Stack) drop(server *Server) error {
	s.mu.Lock()
	s.servers = slices.DeleteFunc(s.servers, func(other *Server) bool { return other == server })
	s.mu.Unlock()
	return server.Stop()
}

// Server finds a server by name: redis, zookeeper, mysql, nginx, app-1; a second one of a sort is redis-2. It is nil if it was
// never ready.
func (s *Stack) Server(name string) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.servers {
		if server.Name == name {
			return server
		}
	}
	return nil
}

// instances lists the instances, oldest first.
func (s *Stack) instances() []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.servers), func(server *Server) bool { return server.tier != instance })
}

package stack

import (
	"context"
	"fmt"

	"example.com/stock/internal/stack/powerfs"
)

// CheckPowerCuts returns nil if the power of servers can be cut here, and otherwise the reason.
func CheckPowerCuts() error {
	if err := powerfs.Check(); err != nil {
		return fmt.Errorf("no file system can be mounted here (it takes Linux, /dev/fuse, and root): %w", err)
	}
	return nil
}

// onDisk returns build with the server's folder on a Disk. Stop unmounts it.
func (s *Stack) onDisk(build builder) builder {
	var disk *powerfs.Disk // also if build is called again with another port
	return func(ctx context.Context, name, dir string, port int) (*Server, error) {
		if disk == nil {
			var err error
			if disk, err = powerfs.Mount(dir); err != nil {
				return nil, err
			}
			s.mu.Lock()
			s.disks = append(s.disks, disk)
			s.mu.Unlock()
		}
		server, err := build(ctx, name, dir, port)
		if server != nil {
			server.Disk = disk
		}
		return server, err
	}
}

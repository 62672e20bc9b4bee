package rig

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"example.com/stock/internal/stack"
)

// Versions asks the servers of a side, and the programs around it, for their versions. What does not answer is left
// out.
func (s *Side) Versions(ctx context.Context) []string {
	list := []string{runtime.Version()}
	if s.Redis != nil {
		info, _ := s.Redis.Info(ctx, "server").Result()
		for line := range strings.Lines(info) {
			if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
				list = append(list, "Redis "+strings.TrimSpace(version))
			}
		}
	}
	if s.DB != nil {
		var version string
		if s.DB.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version) == nil {
			list = append(list, version)
		}
	}
	if server := s.servers["zookeeper"]; server != nil {
		if version := ZooKeeperVersion(server.Addr); version != "" {
			list = append(list, "ZooKeeper "+version)
		}
	}
	// Both print it on standard error, and wrk -v fails.
	nginx, _ := exec.CommandContext(ctx, "nginx", "-v").CombinedOutput()
	if _, version, ok := strings.Cut(strings.TrimSpace(string(nginx)), "nginx version: "); ok {
		list = append(list, version)
	}
	wrk, _ := exec.CommandContext(ctx, "wrk", "-v").CombinedOutput()
	if f := strings.Fields(string(wrk)); len(f) > 1 && f[0] == "wrk" {
		list = append(list, "wrk "+f[1])
	}
	return list
}

// ZooKeeperVersion asks a server for its version; "" if it does not answer.
func ZooKeeperVersion(addr string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	reply, err := stack.ZooKeeperWord(ctx, addr, "srvr")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(reply, "\n")
	version, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return version
}

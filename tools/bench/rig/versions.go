package rig

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"time"
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
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ""
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return version
}

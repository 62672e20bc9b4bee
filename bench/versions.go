package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"example.com/stock/stack"
)

// peerModules are the libraries whose versions are printed.
var peerModules = []string{
	"github.com/redis/go-redis/v9", "github.com/bsm/redislock", "github.com/go-redsync/redsync/v4",
	"github.com/go-zookeeper/zk",
	"github.com/go-sql-driver/mysql", "gorm.io/gorm",
}

func moduleVersions() []string {
	list := []string{runtime.Version()}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return list
	}
	for _, module := range build.Deps {
		if slices.Contains(peerModules, module.Path) {
			list = append(list, strings.TrimPrefix(module.Path, "github.com/")+" "+module.Version)
		}
	}
	return list
}

// serverVersions asks the servers. One that does not answer is left out.
func (c *contest) serverVersions(ctx context.Context) []string {
	var list []string
	if info, err := c.redis.Info(ctx, "server").Result(); err == nil {
		for line := range strings.Lines(info) {
			if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
				list = append(list, "Redis "+strings.TrimSpace(version))
			}
		}
	}
	if server := c.servers.Server(string(stack.ZooKeeper)); server != nil {
		if version := zookeeperVersion(server.Addr); version != "" {
			list = append(list, "ZooKeeper "+version)
		}
	}
	if c.db != nil {
		var version string
		if c.db.WithContext(ctx).Raw("SELECT VERSION()").Scan(&version).Error == nil {
			list = append(list, version)
		}
	}
	return list
}

func zookeeperVersion(addr string) string {
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

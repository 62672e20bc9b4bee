package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/tools/bench/rig"
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
	if server := c.servers.Server(string(server.ZooKeeper)); server != nil {
		if version := rig.ZooKeeperVersion(server.Addr); version != "" {
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

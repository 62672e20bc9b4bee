package main

import (
	"net"
	"os"
	"time"
)

// A Config is what holds: defaults, then the file, the environment and the flags, each over the one before.
type Config struct {
	Addr       string `mapstructure:"addr"`
	Instance   string `mapstructure:"instance"`
	AdminToken string `mapstructure:"admin_token"`
	Admin      struct{ Addr string }
	Lab        bool          `mapstructure:"lab"`
	Store      string        `mapstructure:"store"`
	Wait       time.Duration `mapstructure:"wait"`
	Work       time.Duration `mapstructure:"work"`
	Drain      time.Duration `mapstructure:"drain"`
	Stop       time.Duration `mapstructure:"stop"`
	Log        struct{ Level, Format string }
	Seed       struct {
		SKU      string
		Quantity int64
	}
	Redis struct {
		Addrs            []string
		MasterName       string `mapstructure:"master_name"`
		Cluster          bool
		Username         string
		Password         string
		SentinelPassword string `mapstructure:"sentinel_password"`
		DB               int
		PoolSize         int `mapstructure:"pool_size"`
		Queue            int
		Timeout          time.Duration
	}
	Redlock struct {
		Addrs       []string
		Lease       time.Duration
		Quarantine  time.Duration
		NodeTimeout time.Duration `mapstructure:"node_timeout"`
	}
	ZooKeeper struct {
		Hosts          []string
		SessionTimeout time.Duration `mapstructure:"session_timeout"`
		ConnectTimeout time.Duration `mapstructure:"connect_timeout"`
		Root           string
	}
	MySQL struct {
		DSN          string
		Migrate      bool
		PoolSize     int `mapstructure:"pool_size"`
		LockPoolSize int `mapstructure:"lock_pool_size"`
		Queue        int
		LockKeys     int `mapstructure:"lock_keys"`
	}
	Limits struct{ Waiting int }
	Lock   struct {
		SetNXLease    time.Duration `mapstructure:"setnx_lease"`
		RepairSetNX   bool          `mapstructure:"setnx_repair"`
		WatchdogLease time.Duration `mapstructure:"watchdog_lease"`
		HandOver      bool          `mapstructure:"handover"`
		Segments      int
		MaxHold       time.Duration `mapstructure:"max_hold"`

		Replicas       int
		ReplicaTimeout time.Duration `mapstructure:"replica_timeout"`
	}
}

// complete fills in what depends on other keys.
func (c *Config) complete() {
	if c.Instance == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "stock"
		}
		_, port, _ := net.SplitHostPort(c.Addr)
		c.Instance = host + ":" + port
	}
}

package app

import (
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/pflag"
)

// unknown returns the error for an unknown key or variable. meant is the suggestion, or "". written returns the name of
// a key as it is written there.
func unknown(name, what, meant string, written func(string) string) error {
	for key, use := range instead() {
		if written(key) == name {
			return fmt.Errorf("%s: is gone: %s", name, use)
		}
	}
	if meant == "" {
		return fmt.Errorf("%s: unknown %s", name, what)
	}
	return fmt.Errorf("%s: unknown %s (did you mean %s?)", name, what, meant)
}

// FlagError returns an error of flags with what to use instead, if it is about the flag of a setting that is gone.
func FlagError(err error) error {
	absent, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return err
	}
	for key, use := range instead() {
		if flagOf(key) == absent.GetSpecifiedName() {
			return fmt.Errorf("--%s: is gone: %s", flagOf(key), use)
		}
	}
	return err
}

// instead lists the settings that are gone, with what to use instead of each.
func instead() map[string]string {
	const (
		listenerTLS = "end the TLS of clients at an ingress or at nginx (docs/security.md#wires)"
		redisURL    = "set redis.url, such as redis://user:password@host:6379/0 (docs/operations.md#settings)"
		verified    = "the files are server_tls.ca, server_tls.cert and server_tls.key, for all servers"
		host        = "the certificate must have the host of the address"
		ensemble    = "set zookeeper.hosts, such as user:password@host1:2181,host2:2181"
		fixed       = "the limit is fixed"
	)
	gone := map[string]string{
		"tls.cert": listenerTLS, "tls.key": listenerTLS, "tls.client_ca": listenerTLS,
		"admin.tls.cert": listenerTLS, "admin.tls.key": listenerTLS, "admin.tls.client_ca": listenerTLS,
		"tls_min_version": "TLS 1.2 is the oldest, and a server can demand 1.3",
		"redis.addrs":     redisURL, "redis.master_name": redisURL, "redis.cluster": redisURL, "redis.db": redisURL,
		"redis.username": redisURL, "redis.password": redisURL, "redis.sentinel_password": redisURL,
		"redis.password_file":          "set redis.url_file, a file that contains redis.url",
		"redis.sentinel_password_file": "set redis.url_file, a file that contains redis.url",
		"redis.pool_size":              "set redis.url with ?pool_size=",
		"redlock.addrs":                "set redlock.urls, such as redis://host1:6379,redis://host2:6379,...",
		"zookeeper.credentials":        ensemble,
		"zookeeper.credentials_file":   "set zookeeper.hosts_file, a file that contains zookeeper.hosts",
		"zookeeper.connect_timeout":    "it is a tenth of zookeeper.session_timeout, at least 1s",
		"mysql.lock_pool_size":         "mysql.pool_size is for the locks, too",
		"mysql.lock_keys":              "it is a third of mysql.pool_size",
		"mysql.migrate":                "an instance always brings the schema up to date (also: stock migrate up)",
		"lock.replica_timeout":         "it is half of redis.timeout",
		"stores.enabled":               "set redis.url or mysql.dsn to nothing, to go without that server",
		"redis.queue":                  fixed, "mysql.queue": fixed, "limits.waiting": fixed, "merge.limit": fixed,
	}
	for server, on := range map[string]string{
		"redis": "redis.url with rediss://", "mysql": "mysql.dsn with ?tls=true",
		"zookeeper": "zookeeper.hosts with tls://",
	} {
		maps.Copy(gone, map[string]string{
			server + ".tls.enabled": "set " + on + "; " + verified,
			server + ".tls.ca":      verified, server + ".tls.cert": verified, server + ".tls.key": verified,
			server + ".tls.server_name": host,
		})
	}
	return gone
}

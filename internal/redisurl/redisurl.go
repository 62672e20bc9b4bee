// Package redisurl reads the URL of a Redis: of one server, of a Redis Cluster, or of Sentinels.
package redisurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrForm reports a text that is no such URL. It does not quote the text, which may contain a password.
var ErrForm = errors.New("is not redis://[user:password@]host:port[/database], or rediss:// for TLS")

// parameters returns the parameters that a URL may have. go-redis knows more, such as max_retries and skip_verify, but
// a service whose retries are counted and whose servers are verified must not obey them.
func parameters() []string {
	return []string{"addr", "db", "master_name", "username", "password", "pool_size"}
}

// Parse returns the options of a URL. TLSConfig is set if and only if the URL begins with rediss://.
//
//	redis://host:6379                                       one server
//	redis://host1:6379?addr=host2:6379&addr=host3:6379      nodes of a Redis Cluster (of one node: repeat it as addr)
//	redis://host1:26379?addr=host2:26379&master_name=name   Sentinels; username= and password= are for Redis
func Parse(raw string) (redis.UniversalOptions, error) {
	var o redis.UniversalOptions
	u, err := url.Parse(raw)
	// go-redis takes "redis:6379", which lacks the slashes, for the Redis on this computer.
	if err != nil || !slices.Contains([]string{"redis", "rediss"}, u.Scheme) || u.Host == "" {
		return o, ErrForm
	}
	for name := range u.Query() {
		if !slices.Contains(parameters(), name) {
			return o, fmt.Errorf("has the parameter %q; it may have %s", name, strings.Join(parameters(), ", "))
		}
	}
	switch {
	case u.Query().Has("master_name"):
		o, err = sentinels(raw)
	case u.Query().Has("addr"):
		o, err = cluster(raw)
	default:
		o, err = server(raw)
	}
	if err != nil || o.PoolSize < 0 {
		return redis.UniversalOptions{}, ErrForm // err may quote a password
	}
	return o, nil
}

func server(raw string) (redis.UniversalOptions, error) {
	o, err := redis.ParseURL(raw)
	if err != nil {
		return redis.UniversalOptions{}, err
	}
	return redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, PoolSize: o.PoolSize,
		TLSConfig: o.TLSConfig,
	}, nil
}

func cluster(raw string) (redis.UniversalOptions, error) {
	o, err := redis.ParseClusterURL(raw)
	if err != nil {
		return redis.UniversalOptions{}, err
	}
	return redis.UniversalOptions{
		Addrs: unique(o.Addrs), IsClusterMode: true, Username: o.Username, Password: o.Password, PoolSize: o.PoolSize,
		TLSConfig: o.TLSConfig,
	}, nil
}

func sentinels(raw string) (redis.UniversalOptions, error) {
	o, err := redis.ParseFailoverURL(raw)
	if err != nil {
		return redis.UniversalOptions{}, err
	}
	if o.MasterName == "" {
		return redis.UniversalOptions{}, ErrForm
	}
	return redis.UniversalOptions{
		Addrs: unique(o.SentinelAddrs), MasterName: o.MasterName, DB: o.DB, Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword, PoolSize: o.PoolSize,
		TLSConfig: o.TLSConfig,
	}, nil
}

// unique returns addrs without repetitions, in order.
func unique(addrs []string) (list []string) {
	for _, addr := range addrs {
		if !slices.Contains(list, addr) {
			list = append(list, addr)
		}
	}
	return list
}

package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/internal/mysqlconn"
	"example.com/stock/internal/redisurl"
	"example.com/stock/service"
)

// The functions below check one value each. Their errors begin with the value, or, of a secret, with what is wrong.

func anything[T any](T) error { return nil }

func between[N cmp.Ordered](least, most N) func(N) error {
	return func(n N) error {
		if n < least || n > most {
			return fmt.Errorf("%v is not from %v to %v", n, least, most)
		}
		return nil
	}
}

func isLease(d time.Duration) error { return between(100*time.Millisecond, time.Hour)(d) }

// orZero accepts also the zero value.
func orZero[T comparable](check func(T) error) func(T) error {
	return func(value T) error {
		var zero T
		if value == zero {
			return nil
		}
		return check(value)
	}
}

func orEmpty(check func(string) error) func(string) error { return orZero(check) }

func oneOf(values ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("%q is none of %s", value, strings.Join(values, ", "))
		}
		return nil
	}
}

// isAddress accepts a host, which may be empty, and a port. The port of a URL would be the rest of it.
func isAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not host:port, with a number up to 65535 as the port", addr)
	}
	return nil
}

func isSKU(sku string) error {
	_, err := service.ParseSKU(sku)
	return explained(err, false)
}

func isPath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
		return fmt.Errorf("%q does not begin, or does end, with a slash", path)
	}
	return nil
}

func isRedis(url string) error {
	_, err := redisurl.Parse(url)
	return err
}

// areMasters accepts the URLs of single servers, of which a majority is possible.
func areMasters(urls []string) error {
	seen := make(map[string]bool)
	for _, url := range urls {
		o, err := redisurl.Parse(url)
		switch {
		case err != nil:
			return err
		case o.IsClusterMode || o.MasterName != "":
			return errors.New("has a URL that is not of a single server")
		case seen[o.Addrs[0]]:
			return fmt.Errorf("has %s twice: the masters must be independent", o.Addrs[0])
		}
		seen[o.Addrs[0]] = true
	}
	if n := len(urls); n == 1 || n == 2 {
		return fmt.Errorf("%d are no quorum: name at least 3 masters, better 5, or none", n)
	}
	return nil
}

func isEnsemble(hosts []string) error {
	_, err := parseEnsemble(hosts)
	return err
}

// isDSN does not quote the error of the driver, which may have the password.
func isDSN(dsn string) error {
	_, err := mysqlconn.Parse(dsn)
	if other, is := errors.AsType[*mysqlconn.CharsetError](err); is {
		return fmt.Errorf("has %s=%q, and values are escaped for utf8mb4: leave it out, or set charset=utf8mb4",
			other.Name, other.Value)
	}
	if err != nil {
		return errors.New("is not user:password@tcp(host:port)/database")
	}
	return nil
}

// check returns an error for each setting that does not go with another one.
func (c *Config) check() (bad []error) {
	must := func(holds bool, text string) {
		if !holds {
			bad = append(bad, errors.New(text))
		}
	}
	must(!c.Lab || len(c.AdminToken) > 0,
		"lab: needs admin_token, because lab mode switches protections off, which is not for everybody")
	files := c.ServerTLS
	must((files.Cert == "") == (files.Key == ""), "server_tls.key: belongs together with server_tls.cert")
	must(files.CA+files.Cert == "" || c.usesTLS(), "server_tls.ca: is set, or server_tls.cert, but no server is"+
		" reached over TLS: that takes rediss:// in redis.url, tls=true in mysql.dsn, tls:// in zookeeper.hosts")
	ensemble, _ := parseEnsemble(c.ZooKeeper.Hosts) // its own check has reported the error
	must(c.ZooKeeper.ACL != creatorACL || len(ensemble.users) > 0 || files.Cert != "",
		"zookeeper.acl: creator needs user:password in zookeeper.hosts, or server_tls.cert:"+
			" without an identity the nodes would belong to nobody")
	return bad
}

// usesTLS reports whether a server is reached over TLS.
func (c *Config) usesTLS() bool {
	for _, url := range append([]string{c.Redis.URL}, c.Redlock.URLs...) {
		if strings.HasPrefix(url, "rediss://") {
			return true
		}
	}
	ensemble, _ := parseEnsemble(c.ZooKeeper.Hosts)
	return ensemble.secure || c.mysqlTLS() == verifiedTLS
}

// verifiedTLS is the parameter tls of a DSN for connections that are verified.
const verifiedTLS = "true"

// mysqlTLS returns the parameter tls of the DSN.
func (c *Config) mysqlTLS() string {
	dsn, err := mysql.ParseDSN(c.MySQL.DSN)
	if err != nil {
		return ""
	}
	return dsn.TLSConfig
}

// doubts returns a warning for each value that is valid but gives weaker guarantees than users may expect.
func (c *Config) doubts() (list []string) {
	if c.Lock.SetNXLease <= c.Work {
		list = append(list, fmt.Sprintf("lock.setnx_lease, %v, is not longer than work, %v: "+
			"a lock without a fence may be free again while a write of unknown outcome still happens",
			c.Lock.SetNXLease, c.Work))
	}
	if mode := c.mysqlTLS(); mode == "preferred" || mode == "skip-verify" {
		list = append(list, "mysql.dsn has tls="+mode+
			", which does not check the server's certificate: use tls="+verifiedTLS)
	}
	return list
}

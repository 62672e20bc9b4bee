package grade

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
)

// Servers returns the names of the servers that Options.Servers may have.
func Servers() []server.Kind { return stack.Kinds() }

// A link is the way from one contender, or from a crowd, to the servers.
type link stack.Link

// cut breaks all connections.
func (l link) cut() {
	for _, proxy := range l {
		proxy.Cut()
	}
}

// commands returns the number of commands sent so far, to all servers.
func (l link) commands() (n int) {
	for _, proxy := range l {
		n += proxy.Requests()
	}
	return n
}

// busiest returns the server that got the most commands. ok is false if none got any.
func (l link) busiest() (kind server.Kind, ok bool) {
	most := 0
	for _, k := range Servers() {
		if l[k] != nil && l[k].Requests() > most {
			kind, most = k, l[k].Requests()
		}
	}
	return kind, most > 0
}

// env returns the environment of a lock that uses the link. STOCK_* is for the service, and is not passed on.
func (l link) env(lease time.Duration, mark string) []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "STOCK_") })
	env = append(env, mark, "LEASE_MS="+strconv.FormatInt(lease.Milliseconds(), 10))
	for kind, proxy := range l {
		host, port, _ := net.SplitHostPort(proxy.Addr())
		switch kind {
		case server.Redis:
			env = append(env, "REDIS_ADDR="+proxy.Addr(), "REDIS_HOST="+host, "REDIS_PORT="+port)
		case server.ZooKeeper:
			env = append(env, "ZOOKEEPER_ADDR="+proxy.Addr())
		case server.MySQL:
			env = append(env, "MYSQL_DSN=root@tcp("+proxy.Addr()+")/stock", "MYSQL_HOST="+host, "MYSQL_TCP_PORT="+port)
		}
	}
	return env
}

// commandText returns a command of Redis or a statement of MySQL for people: its beginning, printable. Of other
// messages it returns "".
func commandText(kind server.Kind, message []byte) string {
	switch kind {
	case server.Redis:
		var list []string
		for i, field := range bytes.Split(message, []byte("\r\n")) {
			if i > 0 && i%2 == 0 && len(list) < 6 {
				list = append(list, string(field))
			}
		}
		if len(list) > 1 && strings.HasPrefix(strings.ToUpper(list[0]), "EVAL") {
			list = append(list[:1], list[2:]...) // without the script
		}
		return short(strings.Join(list, " "))
	case server.MySQL:
		const header = 5
		if len(message) > header {
			return short(strings.Join(strings.Fields(string(message[header:])), " "))
		}
	}
	return ""
}

// short returns a statement for a sentence.
func short(text string) string {
	const most = 60
	if text = printable(text); len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// redisLease returns how long the keys of Redis whose names contain key live on. forever is true if one of them has no
// expiry. Without such a key it returns 0.
func redisLease(ctx context.Context, s *server.Stack, key string) (left time.Duration, forever bool, err error) {
	server := s.Server(string(server.Redis))
	if server == nil {
		return 0, false, nil
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	keys := client.Scan(ctx, 0, "*"+key+"*", 1000).Iterator()
	for keys.Next(ctx) {
		switch ttl, err := client.PTTL(ctx, keys.Val()).Result(); {
		case err != nil:
			return 0, false, fmt.Errorf("PTTL %s: %w", keys.Val(), err)
		case ttl == -1:
			forever = true
		default:
			left = max(left, ttl)
		}
	}
	return left, forever, keys.Err()
}

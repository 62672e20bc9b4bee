package lab

import (
	"database/sql"
	"fmt"
	"net/http"
	"time"

	_ "github.com/go-sql-driver/mysql" // for sql.Open
	"github.com/redis/go-redis/v9"
)

// Redis is a client of the first Redis: to look, and for the lab's own code.
func (b *Bench) Redis() *redis.Client {
	if b.redis == nil {
		b.redis = b.RedisAt(b.Server(NeedRedis).Addr)
	}
	return b.redis
}

// RedisAt is a client of a Redis at host:port, such as a node of Redlock or a proxy. It repeats nothing.
func (b *Bench) RedisAt(addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, ReadTimeout: patience, DialTimeout: patience,
	})
	b.Defer(func() { _ = c.Close() })
	return c
}

// TTL asks Redis how long a key still lives, and writes it down. -1: for ever; -2: there is no such key.
func (b *Bench) TTL(key string) time.Duration {
	ttl, err := b.Redis().PTTL(b.Ctx, key).Result()
	b.Must("PTTL "+key, err)
	shown := fmt.Sprint(ttl)
	if ttl < 0 {
		shown = fmt.Sprint(int64(ttl))
	}
	b.Evidence(Served, ttl.Milliseconds(), "redis: PTTL %s = %s", key, shown)
	b.Note("redis", "PTTL %s = %s", key, shown)
	return ttl
}

// DB is an empty database on MySQL for the lab's own code, with a pool of its own.
func (b *Bench) DB() *sql.DB {
	server := b.Server(NeedMySQL)
	root := b.open("root@tcp(" + server.Addr + ")/")
	name := fmt.Sprintf("lab_%d", time.Now().UnixNano())
	_, err := root.ExecContext(b.Ctx, "CREATE DATABASE "+name)
	b.Must("create a database", err)
	return b.open("root@tcp(" + server.Addr + ")/" + name + "?interpolateParams=true")
}

// ServiceDB is the database of the service, to look at and to lock things in.
func (b *Bench) ServiceDB() *sql.DB { return b.open(b.Server(NeedMySQL).URL) }

func (b *Bench) open(dsn string) *sql.DB {
	db, err := sql.Open("mysql", dsn)
	b.Must("open mysql", err)
	b.Defer(func() { _ = db.Close() })
	return db
}

// Exec runs a statement of the lab's own code and writes it into the timeline.
func (b *Bench) Exec(lane string, on interface {
	Exec(query string, args ...any) (sql.Result, error)
}, query string, args ...any,
) sql.Result {
	r, err := on.Exec(query, args...)
	b.Must(query, err)
	b.Note(lane, "%s", query)
	return r
}

// Int runs a query for one number.
func (b *Bench) Int(lane string, on interface {
	QueryRow(query string, args ...any) *sql.Row
}, query string, args ...any,
) (n int64) {
	b.Must(query, on.QueryRow(query, args...).Scan(&n))
	b.Note(lane, "%s = %d", query, n)
	return n
}

// Holder is who holds the case's lock, as its server has it: "app-1/A", or "" for nobody. known is false if the strategy does not tell.
func (b *Bench) Holder(asked *App) (who string, known bool) {
	var reply struct {
		Holder *struct {
			Instance  string
			RequestID string `json:"request_id"`
			Who       string
		}
	}
	if err := asked.call(b.Ctx, http.MethodGet, "/v1/locks/"+b.Strategy.Name+"/"+b.SKU, &reply); err != nil {
		return "", false
	}
	switch {
	case reply.Holder == nil:
		return "", true
	case reply.Holder.RequestID != "":
		return reply.Holder.Instance + "/" + b.who(reply.Holder.RequestID), true
	default:
		return reply.Holder.Who, true
	}
}

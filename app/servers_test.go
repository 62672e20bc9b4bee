package app

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/repo/gate"
)

// room returns how many operations a gate lets in at a time, each with a key of its own, or all with one.
func room(t *testing.T, g *gate.Gate, oneKey bool) (n int) {
	t.Helper()
	over, end := context.WithCancel(t.Context())
	end()
	for ; n < 1000; n++ {
		key := "hot"
		if !oneKey {
			key = fmt.Sprint(n)
		}
		leave, err := g.Enter(over, gate.Request{Key: key})
		if err != nil {
			break
		}
		defer leave()
	}
	return n
}

// All but one connection are for sales. A single SKU has a quarter of these, and transactions have a half; each has one
// at the least.
func TestHowManyConnectionsAreForWhat(t *testing.T) {
	for _, row := range []struct{ connections, all, perKey, transactions, perKeyOf int }{
		{1, 1, 1, 1, 1},
		{2, 1, 1, 1, 1},
		{3, 2, 2, 1, 1},
		{5, 4, 2, 2, 2},
		{9, 8, 2, 4, 2},
		{17, 16, 4, 8, 2},
		{50, 49, 12, 24, 2},
	} {
		g := mysqlGates(row.connections, 10)
		for _, has := range []struct {
			name      string
			got, want int
		}{
			{"sales", room(t, g.All, false), row.all},
			{"sales of one SKU", room(t, g.All, true), row.perKey},
			{"transactions", room(t, g.Transactions, false), row.transactions},
			{"transactions of one SKU", room(t, g.Transactions, true), row.perKeyOf},
		} {
			if has.got != has.want {
				t.Errorf("%d connections: %d %s at a time, want %d", row.connections, has.got, has.name, has.want)
			}
		}
	}
}

// A request to Redis whose reply is lost is not sent again by the client: a script would run twice.
func TestALostReplyOfRedisIsNotAskedForAgain(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked := 0
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					switch strings.ToLower(lines.Text()) {
					case "hello", "setinfo":
						fmt.Fprint(conn, "-ERR unknown command\r\n")
					case "get":
						mu.Lock()
						asked++
						mu.Unlock()
						return // in place of a reply
					}
				}
			})
		}
	})
	defer serving.Wait()
	defer listener.Close()
	a := &App{cfg: Config{}}
	a.cfg.Redis.Timeout = 10 * time.Second
	options, err := a.redisOptions("redis://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(options)
	defer client.Close()
	if err := client.Get(t.Context(), "key").Err(); err == nil {
		t.Error("a request without a reply has none")
	}
	mu.Lock()
	defer mu.Unlock()
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

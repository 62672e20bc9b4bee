package app

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

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

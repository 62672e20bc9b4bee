// Command lease-redis is lease-redis.sh in Go, a lock to start from:
// stock lab grade --go ./docs/examples/grade/lease-redis
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

var unlock = redis.NewScript(
	`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func main() {
	client, ctx := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}), context.Background()
	ms, _ := strconv.Atoi(os.Getenv("LEASE_MS"))
	lease := time.Duration(ms) * time.Millisecond
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		request := strings.Fields(lines.Text()) // acquire KEY WAIT_MS, or release KEY TOKEN
		if request[0] == "release" {
			if err := unlock.Run(ctx, client, request[1:2], request[2]).Err(); err != nil {
				fmt.Println("error", err)
			} else {
				fmt.Println("ok")
			}
			continue
		}
		wait, _ := strconv.Atoi(request[2])
		token, deadline := uuid.NewString(), time.Now().Add(time.Duration(wait)*time.Millisecond)
		for {
			ok, err := client.SetNX(ctx, request[1], token, lease).Result()
			if err != nil {
				fmt.Println("error", err)
			} else if ok {
				fmt.Println("ok", token)
			} else if time.Now().After(deadline) {
				fmt.Println("busy")
			} else {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			break
		}
	}
}

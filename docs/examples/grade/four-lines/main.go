// Command four-lines is the four lines of lesson 3 as a lock, with their mistakes. Mend it, and grade it:
// stock lab grade --only crash-between-commands,late-release,release-in-steps --go ./docs/examples/grade/four-lines
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

func lock(ctx context.Context, client *redis.Client, key, token string, lease time.Duration) (bool, error) {
	ok, err := client.SetNX(ctx, key, token, 0).Result() // 0: no expiry
	if ok {
		err = client.PExpire(ctx, key, lease).Err()
	}
	return ok, err
}

func unlock(ctx context.Context, client *redis.Client, key, token string) error {
	return client.Del(ctx, key).Err()
}

func main() {
	client, ctx := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}), context.Background()
	lease, _ := time.ParseDuration(os.Getenv("LEASE_MS") + "ms")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		request := strings.Fields(lines.Text()) // acquire KEY WAIT_MS, or release KEY TOKEN
		verb, key, reply, err := request[0], request[1], "ok", error(nil)
		if verb == "release" {
			err = unlock(ctx, client, key, request[2])
		} else {
			token, ok := uuid.NewString(), false
			ok, err = lock(ctx, client, key, token, lease)
			reply = "ok " + token
			if !ok {
				reply = "busy" // the grader asks again
			}
		}
		if err != nil {
			reply = "error " + err.Error()
		}
		fmt.Println(reply)
	}
}

// Command zk-persistent is broken: its node outlives the session of a dead holder (lesson 7).
// Fix it, and grade it: stock lab grade --only holder-killed --go ./docs/examples/grade/zk-persistent
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

func main() {
	lease, _ := strconv.Atoi(os.Getenv("LEASE_MS"))
	conn, _, err := zk.Connect([]string{os.Getenv("ZOOKEEPER_ADDR")}, time.Duration(lease)*time.Millisecond,
		zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		log.Fatal(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		request := strings.Fields(lines.Text()) // acquire KEY WAIT_MS, or release KEY TOKEN
		if request[0] == "release" {
			if err := conn.Delete(request[2], -1); err != nil {
				fmt.Println("error", err)
			} else {
				fmt.Println("ok")
			}
			continue
		}
		wait, _ := strconv.Atoi(request[2])
		fmt.Println(acquire(conn, "/"+request[1], time.Now().Add(time.Duration(wait)*time.Millisecond)))
	}
}

// acquire creates the node of the lock, which only one can.
func acquire(conn *zk.Conn, node string, deadline time.Time) string {
	for {
		_, err := conn.Create(node, nil, 0, zk.WorldACL(zk.PermAll))
		switch {
		case err == nil:
			return "ok " + node
		case err != zk.ErrNodeExists:
			return "error " + err.Error()
		case time.Now().After(deadline):
			return "busy"
		}
		time.Sleep(20 * time.Millisecond)
	}
}

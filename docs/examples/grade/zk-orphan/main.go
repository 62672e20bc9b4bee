// Command zk-orphan is broken: if the reply to create is lost, it creates a second node, and waits behind its own first
// one (lesson 7). Fix it, and grade it: stock lab grade --only lost-reply --go ./docs/examples/grade/zk-orphan
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"sort"
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

// acquire stands in a queue of ephemeral sequential nodes. The first of them has the lock.
func acquire(conn *zk.Conn, parent string, deadline time.Time) string {
	_, _ = conn.Create(parent, nil, 0, zk.WorldACL(zk.PermAll))
	mine, err := conn.Create(parent+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	for err == zk.ErrConnectionClosed && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		mine, err = conn.Create(parent+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	}
	if err != nil {
		return "error " + err.Error()
	}
	for {
		nodes, _, err := conn.Children(parent)
		if err != nil {
			return "error " + err.Error()
		}
		sort.Slice(nodes, func(i, j int) bool { return number(nodes[i]) < number(nodes[j]) })
		if len(nodes) > 0 && parent+"/"+nodes[0] == mine {
			return "ok " + mine
		}
		if time.Now().After(deadline) {
			_ = conn.Delete(mine, -1)
			return "busy"
		}
		time.Sleep(20 * time.Millisecond) // a good lock watches its predecessor instead
	}
}

func number(node string) string { return node[strings.LastIndexByte(node, '-')+1:] }

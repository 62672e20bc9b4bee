// Command zk is the fixed twin of zk-orphan and of zk-persistent: it finds a node whose reply was lost by the GUID in
// its name, and its nodes end with its session.
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
	mine, err := conn.CreateProtectedEphemeralSequential(parent+"/n-", nil, zk.WorldACL(zk.PermAll))
	if err != nil {
		return "error " + err.Error()
	}
	for {
		nodes, _, err := conn.Children(parent)
		if err != nil {
			continue // the node is in the queue: to give up now would leave it there
		}
		sort.Slice(nodes, func(i, j int) bool { return number(nodes[i]) < number(nodes[j]) })
		if len(nodes) > 0 && parent+"/"+nodes[0] == mine {
			return "ok " + mine
		}
		if time.Now().After(deadline) {
			for err = conn.Delete(mine, -1); err != nil && err != zk.ErrNoNode; {
				err = conn.Delete(mine, -1)
			}
			return "busy"
		}
		time.Sleep(20 * time.Millisecond) // a good lock watches its predecessor instead
	}
}

func number(node string) string { return node[strings.LastIndexByte(node, '-')+1:] }

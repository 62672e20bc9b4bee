package deploy

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed ha/haproxy.cfg
var shippedHAProxy string

// HAProxyUser is the user without a password and without rights with whom HAProxy checks the nodes of MariaDB.
const HAProxyUser = "haproxy"

// HAProxy returns the shipped ha/haproxy.cfg for a proxy at listen, host:port, before the given nodes, each host:port.
// The first node is used until it is down, and the others are its backups.
func HAProxy(listen string, nodes []string) []byte {
	var out strings.Builder
	for line := range strings.Lines(shippedHAProxy) {
		switch words := strings.Fields(line); {
		case len(words) > 1 && words[0] == "bind":
			fmt.Fprintf(&out, "    bind %s\n", listen)
		case len(words) > 1 && words[0] == "server":
			for i, node := range nodes {
				backup := ""
				if i > 0 {
					backup = " backup"
				}
				fmt.Fprintf(&out, "    server node-%d %s check%s\n", i+1, node, backup)
			}
			nodes = nil // all of them replace the first shipped server
		default:
			out.WriteString(line)
		}
	}
	return []byte(out.String())
}

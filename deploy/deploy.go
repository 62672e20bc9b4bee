// Package deploy has the files with which the service is deployed. It adapts the nginx configuration to a run on this
// computer.
package deploy

import (
	_ "embed"
	"path/filepath"
	"strings"
)

//go:embed nginx.conf
var shipped string

// NginxOptions replace values of the shipped configuration. An empty field keeps the shipped value.
type NginxOptions struct {
	Listen    string   // for the listen directive: "127.0.0.1:18080", "8080"; shipped: 8080
	Upstreams []string // host:port of each instance; shipped: 127.0.0.1:8088, 8089 and 8090
	// Dir must be absolute, exist and be writable. It has nginx.pid, access.log, error.log, temporary files and
	// stock-again.sock, the socket between the two servers of the configuration. Start nginx in Dir, because the
	// socket's name is relative if Dir's is long. A socket that a killed nginx left must be removed before the next
	// start.
	Dir string
	// Affinity sends all requests that name the same SKU to the same instance.
	Affinity bool
}

// affinity is the line of the shipped file that switches SKU affinity on, a comment there.
const affinity = "# hash $stock_sku consistent;"

// Nginx returns the shipped nginx.conf with the options applied. The rules for retries, timeouts and headers are those
// of a deployment. With Dir set, nginx needs no rights outside it, so an ordinary user can run
//
//	nginx -e stderr -c FILE -g 'daemon off;'
//
// Values are not checked; nginx -t does that. A Dir with a dollar sign in its name is not supported: nginx reads it
// as a variable.
func Nginx(o NginxOptions) []byte {
	var out strings.Builder
	servers := o.Upstreams
	for line := range strings.Lines(shipped) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		words := strings.Fields(line)
		switch {
		case o.Affinity && strings.TrimSpace(line) == affinity:
			out.WriteString(strings.Replace(line, "# ", "", 1))
		case len(words) < 2 || strings.HasPrefix(words[0], "#"):
			out.WriteString(line)
		case (words[0] == "listen" || words[0] == "server") && strings.HasPrefix(words[1], "unix:"):
			if o.Dir != "" {
				words[1] = socket(o.Dir, filepath.Base(strings.TrimSuffix(words[1], ";"))) + ";"
			}
			out.WriteString(indent + strings.Join(words, " ") + "\n")
		case words[0] == "listen" && o.Listen != "":
			out.WriteString(indent + "listen " + o.Listen + ";\n")
		case words[0] == "server" && strings.Contains(words[1], ":") && len(o.Upstreams) > 0:
			for _, s := range servers {
				words[1] = s
				out.WriteString(indent + strings.Join(words, " ") + "\n")
			}
			servers = nil // all of them replace the first shipped server
		case (words[0] == "pid" || strings.HasSuffix(words[0], "_log")) && strings.HasPrefix(words[1], "/") &&
			o.Dir != "":
			name := filepath.Base(strings.TrimSuffix(words[1], ";"))
			words[1] = quoted(o.Dir, name)
			if len(words) == 2 {
				words[1] += ";"
			}
			out.WriteString(indent + strings.Join(words, " ") + "\n")
		case words[0] == "http" && o.Dir != "":
			out.WriteString(line)
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				out.WriteString("    " + kind + "_temp_path " + quoted(o.Dir, kind+"_temp") + ";\n")
			}
		default:
			out.WriteString(line)
		}
	}
	return []byte(out.String())
}

// maxSocket is the longest name that a socket can have on every system, in bytes. The shortest limit is that of macOS.
const maxSocket = 103

// socket returns the address of a socket in dir.
func socket(dir, name string) string {
	if len(filepath.Join(dir, name)) > maxSocket {
		return "unix:" + name
	}
	return quoted("unix:"+dir, name)
}

// quoted makes a path one word for nginx, even if the name of dir has blanks or quotes.
func quoted(dir, name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(filepath.Join(dir, name)) + `"`
}

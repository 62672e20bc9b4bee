// Package deploy holds what the service is run with, and fits the nginx configuration to a run on this computer.
package deploy

import (
	_ "embed"
	"path/filepath"
	"strings"
)

//go:embed nginx.conf
var shipped string

// NginxOptions says what a run has in place of the shipped values. An empty field keeps what is shipped.
type NginxOptions struct {
	Listen    string   // what the listen directive takes: "127.0.0.1:18080", "8080"; shipped: 8080
	Upstreams []string // host:port of each instance; shipped: 127.0.0.1:8088, 8089 and 8090
	// Dir is absolute, exists and is writable. It is for nginx.pid, access.log, error.log, temporary files and
	// stock-again.sock, over which nginx talks to itself: start nginx in Dir, because the name of the socket is relative
	// where that of Dir is long. A socket that a killed nginx has left must be removed before the next one starts.
	Dir string
}

// Nginx returns the shipped nginx.conf with the options put in: the rules for retries, timeouts and headers stay those that a
// deployment has. With Dir set, nginx needs no right outside it, so an ordinary user can run
//
//	nginx -e stderr -c FILE -g 'daemon off;'
//
// Values are not checked; nginx -t does that. A Dir with a dollar sign in its name is not supported: nginx reads a variable there.
func Nginx(o NginxOptions) []byte {
	var out strings.Builder
	servers := o.Upstreams
	for line := range strings.Lines(shipped) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		words := strings.Fields(line)
		switch {
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
			servers = nil // the first shipped server made room for all of them
		case (words[0] == "pid" || strings.HasSuffix(words[0], "_log")) && strings.HasPrefix(words[1], "/") && o.Dir != "":
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

// maxSocket is the longest name of a socket, in bytes, on any system: that of macOS, with the zero at its end.
const maxSocket = 103

// socket is the address of a socket in dir.
func socket(dir, name string) string {
	if len(filepath.Join(dir, name)) > maxSocket {
		return "unix:" + name
	}
	return quoted("unix:"+dir, name)
}

// quoted makes one nginx word of a path, whatever blanks or quotes a temporary folder's name has.
func quoted(dir, name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(filepath.Join(dir, name)) + `"`
}

package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"example.com/stock/deploy"
	"example.com/stock/lock/locktest/server"
)

// frontPort is the usual port. It is used if it is free, so that the commands in the documents work as they stand.
const frontPort = 8080

// Front starts nginx in front of the given servers, or of all instances if none are given, on port 8080 if it is
// free. Its rules are those of the shipped nginx.conf. If nginx is missing, a proxy inside this process stands in.
func (s *Stack) Front(ctx context.Context, behind ...*server.Server) (*server.Server, error) {
	if len(behind) == 0 {
		behind = s.Tier(server.Instance)
	}
	if len(behind) == 0 {
		return nil, errors.New("start nginx: no instance to put it before")
	}
	var upstreams []string
	for _, instance := range behind {
		upstreams = append(upstreams, instance.Addr)
	}
	build := func(ctx context.Context, name, dir string, port int) (*server.Server, error) {
		return buildNginx(ctx, filepath.Join(s.Dir, name+".log"), deploy.NginxOptions{
			Upstreams: upstreams, Dir: dir,
		}, port)
	}
	return s.Open(ctx, s.Name("nginx"), build, frontPort)
}

func buildNginx(ctx context.Context, log string, o deploy.NginxOptions, port int) (*server.Server, error) {
	program, err := server.Find("apt-get install nginx-light", "nginx")
	if err != nil {
		return goProxy(err.Error(), port, o.Upstreams), nil
	}
	dir, config := o.Dir, filepath.Join(o.Dir, "nginx.conf")
	o.Listen = server.Local(port)
	if err := os.WriteFile(config, deploy.Nginx(o), 0o600); err != nil {
		return nil, err
	}
	cmd := server.Command{Path: program, Dir: dir, Log: log, Args: []string{"-e", "stderr", "-p", dir, "-c", config}}
	check := cmd
	check.Args = append(cmd.Args[:len(cmd.Args):len(cmd.Args)], "-t", "-q")
	if err := check.Finish(ctx); err != nil {
		return nil, err
	}
	cmd.Args = append(cmd.Args, "-g", "daemon off;"+sameUser())
	return &server.Server{
		URL: "http://" + server.Local(port), Log: cmd.Log, Tier: server.Front,
		// A master that is killed leaves its workers serving. Only SIGTERM makes it stop them.
		Launch: func() (server.Run, error) {
			// A killed nginx leaves its socket file behind, and the next one could not listen there.
			if err := os.Remove(filepath.Join(dir, "stock-again.sock")); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			return cmd.Start(syscall.SIGTERM)
		},
		Ready: func(ctx context.Context, pid int) error {
			return nginxReady(ctx, port, filepath.Join(dir, "nginx.pid"), pid)
		},
	}, nil
}

// sameUser makes an nginx that root started run its workers as root and not as nobody, because they connect to a socket
// in the stack's folder, which only its owner can open. They listen on this computer only.
func sameUser() string {
	if os.Geteuid() != 0 {
		return ""
	}
	owner, err := user.Current()
	if err != nil {
		return ""
	}
	group, err := user.LookupGroupId(owner.Gid)
	if err != nil {
		return ""
	}
	return " user " + owner.Username + " " + group.Name + ";"
}

// nginxReady requires the pid file, which nginx writes only after it has bound the port, and a reply that needs no
// instance.
func nginxReady(ctx context.Context, port int, pidFile string, pid int) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(text)); got != strconv.Itoa(pid) {
		return fmt.Errorf("%s names process %s, expected %d", pidFile, got, pid)
	}
	_, err = get(ctx, "http://"+server.Local(port)+"/nginx_status", "")
	return err
}

package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/stock/lock/locktest/server"
)

// aliveBound is how long to wait for a live instance to become ready. After that, alive is enough, because a backend
// that is missing on purpose must not block the use of the others.
const aliveBound = 5 * time.Second

// askedBound is how long to wait for an instance whose first check of a backend has not ended. On a busy computer the
// migration of an empty MySQL takes longer than aliveBound.
const askedBound = 90 * time.Second

// notAsked is the reason that an instance reports until then (see health.New).
const notAsked = "not asked yet"

// app is the first part of the name of an instance.
const app = "app"

// Serve starts n instances of `stock serve` in parallel. Their environment has the addresses of the stack's backends,
// then Options.Env, then env. They listen on ports 8088, 8089 and 8090, and for operators on 9090, 9091 and 9092, if
// these are free. Serve returns when each instance is ready, or has been alive for 5 s; then the event has the reason
// why it is not ready. On error it leaves none of the n running.
func (s *Stack) Serve(ctx context.Context, n int, env ...string) ([]*server.Server, error) {
	program, err := s.program()
	if err != nil {
		return nil, err
	}
	env = slices.Concat(foreignEnv("STOCK_"), s.Env(), s.options.Env, env)
	usualPorts := map[string][]int{"app-1": {8088}, "app-2": {8089}, "app-3": {8090}}
	adminPorts := map[string][]int{"app-1": {9090}, "app-2": {9091}, "app-3": {9092}}
	if s.options.AnyPort {
		usualPorts, adminPorts = nil, nil
	}
	given := given(env)
	return s.openAll(ctx, n, app, func(ctx context.Context, name string) (*server.Server, error) {
		return s.Open(ctx, name, s.instance(program, env, given, adminPorts[name]), usualPorts[name]...)
	})
}

// program returns the path of the stock program.
func (s *Stack) program() (string, error) {
	program := s.options.Binary
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return "", fmt.Errorf("find the stock program: %w", err)
		}
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return "", fmt.Errorf("find the stock program: %w", err)
	}
	return program, nil
}

// openAll opens n servers of a kind in parallel. On error it leaves none of them running.
func (s *Stack) openAll(
	ctx context.Context, n int, kind string, open func(ctx context.Context, name string) (*server.Server, error),
) ([]*server.Server, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	servers, failed := make([]*server.Server, n), make([]error, n)
	for i := range n {
		name := fmt.Sprintf("%s-%d", kind, s.Number(kind))
		all.Go(func() {
			opened, err := open(ctx, name)
			if err != nil && !errors.Is(err, errOther) {
				failed[i] = err
				cancel(errOther)
			}
			servers[i] = opened
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		for _, opened := range servers {
			if opened != nil {
				err = errors.Join(err, s.Drop(opened))
			}
		}
		return nil, err
	}
	return servers, nil
}

func (s *Stack) instance(program string, env []string, given []server.Kind, adminPorts []int) server.Builder {
	return func(_ context.Context, name, dir string, port int) (*server.Server, error) {
		admin, err := s.Reserve(adminPorts...)
		if err != nil {
			return nil, err
		}
		cmd := server.Command{Path: program, Args: []string{"serve"}, Dir: dir, Log: filepath.Join(s.Dir, name+".log")}
		// These come last, so that neither Options.Env nor env can make two instances collide.
		cmd.Env = append(slices.Clip(env),
			"STOCK_ADDR="+server.Local(port), "STOCK_ADMIN_ADDR="+admin, "STOCK_INSTANCE="+name)
		url := "http://" + server.Local(port)
		ready := func(ctx context.Context) error { return s.demoReady(ctx, url, name, given) }
		s.check(name, ready)
		var launched time.Time
		return &server.Server{
			URL: url, Admin: "http://" + admin, Log: cmd.Log, Tier: server.Instance,
			Launch: func() (server.Run, error) {
				launched = time.Now()
				return cmd.Start(syscall.SIGKILL)
			},
			Ready: func(ctx context.Context, _ int) error {
				return readyOrAlive(ctx, ready, url, name, launched)
			},
		}, nil
	}
}

// readyOrAlive requires that the instance is ready. From aliveBound after the launch, 200 from /livez suffices; from
// askedBound, if the first check of a backend has not ended.
func readyOrAlive(
	ctx context.Context, ready func(context.Context) error, url, name string, launched time.Time,
) error {
	err := ready(ctx)
	if err == nil {
		return nil
	}
	bound := aliveBound
	if strings.Contains(err.Error(), notAsked) {
		bound = askedBound
	}
	if time.Since(launched) < bound {
		return err
	}
	if _, err := get(ctx, url+"/livez", name); err != nil {
		return err
	}
	return &server.UnreadyError{Reason: err}
}

// demoReady requires that /readyz reports each given backend up: an instance is ready as soon as it can sell in any
// way, but a run needs all. A backend of the stack that does not run cannot be up. An instance that refuses to sell
// from a cluster with several writers is as ready as it will be, also if it can sell from nothing else.
func (s *Stack) demoReady(ctx context.Context, url, name string, given []server.Kind) error {
	body, err := get(ctx, url+"/readyz", name)
	if body == nil {
		return err
	}
	var reply struct {
		Backends map[server.Kind]struct {
			Up     bool
			Reason string
		}
	}
	if wrong := json.Unmarshal(body, &reply); wrong != nil {
		return cmp.Or(err, fmt.Errorf("decode /readyz: %w", wrong))
	}
	var down []error
	for _, kind := range given {
		switch b, told := reply.Backends[kind]; {
		case !told, b.Up, s.stopped(kind):
		case RefusesWriters(b.Reason):
			err = nil
		default:
			down = append(down, fmt.Errorf("%s: %s", kind, b.Reason))
		}
	}
	return cmp.Or(errors.Join(down...), err)
}

// RefusesWriters reports whether a reason of /readyz is that MySQL is a cluster with several writers.
func RefusesWriters(reason string) bool { return strings.Contains(reason, "mysql.single_writer") }

// stopped reports whether the stack's backend of a kind was killed or stopped. A stand-in has no process, and cannot
// be told from one that was.
func (s *Stack) stopped(kind server.Kind) bool {
	backend := s.Server(string(kind))
	return backend != nil && backend.StandIn == "" && backend.Pid() == 0
}

// get returns the body of a reply. A status other than 200 is an error; the body comes with it. If name is not empty,
// the reply must come from the instance of that name.
func get(ctx context.Context, url, name string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	// A transport of its own, so that no idle connection is left behind.
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return nil, err
	}
	if got := res.Header.Get("X-Instance"); name != "" && got != name {
		return nil, fmt.Errorf("%s answered as %q, expected %q", url, got, name)
	}
	if res.StatusCode != http.StatusOK {
		return body, fmt.Errorf("%s answered %d: %s", url, res.StatusCode, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// Kinds returns the kinds of backends that instances use.
func Kinds() []server.Kind { return []server.Kind{server.Redis, server.ZooKeeper, server.MySQL} }

// Setting returns the environment variable of an instance for the backend of a kind at url, a [server.Server.URL] or
// "": there is none.
func Setting(kind server.Kind, url string) string {
	if kind == server.Redis && url != "" {
		url = "redis://" + url
	}
	return variable(kind) + "=" + url
}

// SentinelsSetting is Setting for a Redis that an instance finds through Sentinels.
func SentinelsSetting(x *server.Sentinels) string {
	addrs := x.Addrs()
	return Setting(server.Redis, addrs[0]+"?master_name="+x.Name+"&addr="+strings.Join(addrs, "&addr="))
}

func variable(kind server.Kind) string {
	switch kind {
	case server.Redis:
		return "STOCK_REDIS_URL"
	case server.ZooKeeper:
		return "STOCK_ZOOKEEPER_HOSTS"
	}
	return "STOCK_MYSQL_DSN"
}

// Env returns the addresses of the backends for an instance, as KEY=value. It has the first of each kind; the other
// Redis servers are the masters of redlock. A backend that the stack does not have is empty, so that no
// instance uses the default address, where another server may listen.
func (s *Stack) Env() []string {
	var env, masters []string
	for _, kind := range Kinds() {
		url := ""
		if backend := s.Server(string(kind)); backend != nil {
			url = backend.URL
		}
		env = append(env, Setting(kind, url))
	}
	for i := 2; s.Server(fmt.Sprintf("%s-%d", server.Redis, i)) != nil; i++ {
		masters = append(masters, "redis://"+s.Server(fmt.Sprintf("%s-%d", server.Redis, i)).URL)
	}
	return append(env, "STOCK_REDLOCK_URLS="+strings.Join(masters, ","))
}

// given returns the backends whose addresses are in an environment, of which the last value of a variable counts.
func given(env []string) (kinds []server.Kind) {
	for _, kind := range Kinds() {
		url := ""
		for _, pair := range env {
			if value, is := strings.CutPrefix(pair, variable(kind)+"="); is {
				url = value
			}
		}
		if url != "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// foreignEnv returns the environment without the settings of a developer's shell, which are not for these instances.
func foreignEnv(prefix string) []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, prefix) })
}

package stack

import (
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
	return s.openAll(ctx, n, app, func(ctx context.Context, name string) (*server.Server, error) {
		return s.Open(ctx, name, s.instance(program, env, adminPorts[name]), usualPorts[name]...)
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

func (s *Stack) instance(program string, env []string, adminPorts []int) server.Builder {
	given := s.given()
	return func(_ context.Context, name, dir string, port int) (*server.Server, error) {
		admin, err := s.Reserve(adminPorts...)
		if err != nil {
			return nil, err
		}
		cmd := server.Command{Path: program, Args: []string{"serve"}, Dir: dir, Log: filepath.Join(s.Dir, name+".log")}
		// These come last, so that neither Options.Env nor env can make two instances collide.
		cmd.Env = append(slices.Clip(env),
			"STOCK_ADDR="+server.Local(port), "STOCK_ADMIN_ADDR="+admin, "STOCK_INSTANCE="+name)
		var launched time.Time
		return &server.Server{
			URL: "http://" + server.Local(port), Admin: "http://" + admin, Log: cmd.Log, Tier: server.Instance,
			Launch: func() (server.Run, error) {
				launched = time.Now()
				return cmd.Start(syscall.SIGKILL)
			},
			Ready: func(ctx context.Context, _ int) error {
				return instanceReady(ctx, "http://"+server.Local(port), name, given, launched)
			},
		}, nil
	}
}

// instanceReady requires 200 from /readyz, with every given backend up. From aliveBound after the launch, 200 from
// /livez suffices; from askedBound, if the first check of a backend has not ended.
func instanceReady(ctx context.Context, url, name string, given []server.Kind, launched time.Time) error {
	body, err := get(ctx, url+"/readyz", name)
	if err == nil {
		err = backendsUp(body, given)
	}
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

// backendsUp checks a reply of /readyz. An instance is ready as soon as it can sell in any way, but a run needs all
// backends.
func backendsUp(body []byte, given []server.Kind) error {
	var reply struct {
		Backends map[server.Kind]struct {
			Up     bool
			Reason string
		}
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return fmt.Errorf("decode /readyz: %w", err)
	}
	var down []error
	for _, kind := range given {
		if b, told := reply.Backends[kind]; told && !b.Up {
			down = append(down, fmt.Errorf("%s: %s", kind, b.Reason))
		}
	}
	return errors.Join(down...)
}

// get returns the body of a reply with status 200. If name is not empty, the reply must come from the instance of that
// name.
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
		return nil, fmt.Errorf("%s answered %d: %s", url, res.StatusCode, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// Env returns the addresses of the backends for an instance, as KEY=value. It has the first of each kind; the other
// Redis servers are the masters of redlock. A backend that the stack does not have is empty, so that no
// instance uses the default address, where another server may listen.
func (s *Stack) Env() []string {
	url := func(kind server.Kind, scheme string) string {
		if backend := s.Server(string(kind)); backend != nil {
			return scheme + backend.URL
		}
		return ""
	}
	const redis = "redis://"
	var masters []string
	for i := 2; s.Server(fmt.Sprintf("%s-%d", server.Redis, i)) != nil; i++ {
		masters = append(masters, redis+s.Server(fmt.Sprintf("%s-%d", server.Redis, i)).URL)
	}
	return []string{
		"STOCK_REDIS_URL=" + url(server.Redis, redis),
		"STOCK_REDLOCK_URLS=" + strings.Join(masters, ","),
		"STOCK_ZOOKEEPER_HOSTS=" + url(server.ZooKeeper, ""),
		"STOCK_MYSQL_DSN=" + url(server.MySQL, ""),
	}
}

// given returns the backends whose addresses the instances get.
func (s *Stack) given() []server.Kind {
	return slices.DeleteFunc([]server.Kind{server.Redis, server.ZooKeeper, server.MySQL},
		func(kind server.Kind) bool { return s.Server(string(kind)) == nil })
}

// foreignEnv returns the environment without the settings of a developer's shell, which are not for these instances.
func foreignEnv(prefix string) []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, prefix) })
}

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
)

// aliveBound is how long to wait for a live instance to become ready. After that, alive is enough, because a backend
// that is missing on purpose must not block the use of the others.
const aliveBound = 5 * time.Second

// askedBound is how long to wait for an instance whose first check of a backend has not ended. On a busy computer the
// migration of an empty MySQL takes longer than aliveBound.
const askedBound = startBound / 2

// notAsked is the reason that an instance reports until then (see health.New).
const notAsked = "not asked yet"

// app is the first part of the name of an instance.
const app = "app"

// Serve starts n instances of `stock serve` in parallel. Their environment has the addresses of the stack's backends,
// then Options.Env, then env. They listen on ports 8088, 8089 and 8090, and for operators on 9090, 9091 and 9092, if
// these are free. Serve returns when each instance is ready, or has been alive for 5 s; then the event has the reason
// why it is not ready. On error it leaves none of the n running.
func (s *Stack) Serve(ctx context.Context, n int, env ...string) ([]*Server, error) {
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
	return s.openAll(ctx, n, app, func(ctx context.Context, name string) (*Server, error) {
		return s.open(ctx, name, s.instance(program, env, adminPorts[name]), usualPorts[name]...)
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
	ctx context.Context, n int, kind string, open func(ctx context.Context, name string) (*Server, error),
) ([]*Server, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	servers, failed := make([]*Server, n), make([]error, n)
	for i := range n {
		name := s.name(kind)
		all.Go(func() {
			server, err := open(ctx, name)
			if err != nil && !errors.Is(err, errOther) {
				failed[i] = err
				cancel(errOther)
			}
			servers[i] = server
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		for _, server := range servers {
			if server != nil {
				err = errors.Join(err, s.drop(server))
			}
		}
		return nil, err
	}
	return servers, nil
}

func (s *Stack) instance(program string, env []string, adminPorts []int) builder {
	given := s.given()
	return func(_ context.Context, name, dir string, port int) (*Server, error) {
		admin, err := s.reserve(adminPorts...)
		if err != nil {
			return nil, err
		}
		cmd := command{path: program, args: []string{"serve"}, dir: dir, log: filepath.Join(s.Dir, name+".log")}
		// These come last, so that neither Options.Env nor env can make two instances collide.
		cmd.env = append(slices.Clip(env),
			"STOCK_ADDR="+local(port), "STOCK_ADMIN_ADDR="+local(admin), "STOCK_INSTANCE="+name)
		server := &Server{
			URL: "http://" + local(port), Admin: "http://" + local(admin), Log: cmd.log, tier: instance, admin: admin,
			launch: func() (run, error) { return cmd.start(syscall.SIGKILL) },
		}
		server.ready = func(ctx context.Context, _ int) error { return server.instanceReady(ctx, name, given) }
		return server, nil
	}
}

// instanceReady requires 200 from /readyz, with every given backend up. From aliveBound after the launch, 200 from
// /livez suffices; from askedBound, if the first check of a backend has not ended.
func (s *Server) instanceReady(ctx context.Context, name string, given []Kind) error {
	body, err := get(ctx, s.URL+"/readyz", name)
	if err == nil {
		err = backendsUp(body, given)
	}
	if err == nil {
		s.unready = ""
		return nil
	}
	bound := aliveBound
	if strings.Contains(err.Error(), notAsked) {
		bound = askedBound
	}
	if time.Since(s.launched) < bound {
		return err
	}
	if _, err := get(ctx, s.URL+"/livez", name); err != nil {
		return err
	}
	s.unready = err.Error()
	return nil
}

// backendsUp checks a reply of /readyz. An instance is ready as soon as it can sell in any way, but a run needs all
// backends.
func backendsUp(body []byte, given []Kind) error {
	var reply struct {
		Backends map[Kind]struct {
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

// Env returns the addresses of the backends for an instance, as KEY=value. It has the first of each kind, because
// several addresses of Redis would mean a cluster. A backend that the stack does not have is empty, so that no
// instance uses the default address, where another server may listen.
func (s *Stack) Env() []string {
	url := func(kind Kind) string {
		if server := s.Server(string(kind)); server != nil {
			return server.URL
		}
		return ""
	}
	var masters []string
	for i := 2; s.Server(fmt.Sprintf("%s-%d", Redis, i)) != nil; i++ {
		masters = append(masters, s.Server(fmt.Sprintf("%s-%d", Redis, i)).URL)
	}
	return []string{
		"STOCK_REDIS_ADDRS=" + url(Redis),
		"STOCK_REDLOCK_ADDRS=" + strings.Join(masters, ","),
		"STOCK_ZOOKEEPER_HOSTS=" + url(ZooKeeper),
		"STOCK_MYSQL_DSN=" + url(MySQL),
	}
}

// given returns the backends whose addresses the instances get.
func (s *Stack) given() []Kind {
	return slices.DeleteFunc([]Kind{Redis, ZooKeeper, MySQL},
		func(kind Kind) bool { return s.Server(string(kind)) == nil })
}

// foreignEnv returns the environment without the settings of a developer's shell, which are not for these instances.
func foreignEnv(prefix string) []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, prefix) })
}

package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/stack"
)

// An App is an instance of the service, a process of its own in lab mode.
type App struct {
	*stack.Server
	client *loadtest.Client
	frozen bool
}

// apps are n instances with that environment on top of baseEnv: those of the last scenario that wanted the same, healed.
func (s *stand) apps(ctx context.Context, n int, env ...string) ([]*App, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.Join(env, "\n")
	s.used[key] = s.turn
	if err := s.makeRoom(); err != nil {
		return nil, err
	}
	if more := n - len(s.sets[key]); more > 0 {
		servers, err := s.stack.Serve(ctx, more, env...)
		if err != nil {
			return nil, err
		}
		for _, server := range servers {
			client, err := loadtest.NewClient(server.URL, token, 4)
			if err != nil {
				return nil, err
			}
			s.sets[key] = append(s.sets[key], &App{Server: server, client: client})
		}
	}
	list := slices.Clone(s.sets[key][:n])
	for _, app := range list {
		if err := app.heal(ctx); err != nil {
			return nil, err
		}
	}
	for _, app := range list {
		if err := s.ready(ctx, app); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ready waits until an instance says that every server that runs here is up: one that was frozen, or whose server was, takes a moment.
func (s *stand) ready(ctx context.Context, app *App) error {
	var last error
	for began := time.Now(); time.Since(began) < patience; {
		if last = app.backends(ctx, s.stack); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s is not ready: %w", app.Name, last)
}

// backends asks /readyz, and wants all that were started.
func (a *App) backends(ctx context.Context, from *stack.Stack) error {
	var reply struct {
		Backends map[string]struct {
			Up     bool
			Reason string
		}
	}
	if err := a.call(ctx, http.MethodGet, "/readyz", &reply); err != nil {
		return err
	}
	for name, b := range reply.Backends {
		if !b.Up && from.Server(name) != nil && from.Server(name).Pid() != 0 {
			return fmt.Errorf("%s: %s", name, b.Reason)
		}
	}
	return nil
}

// most is how many instances are kept running for scenarios to come: each asks every server how it is twice a second.
const most = 8

// makeRoom ends the instances that have not been wanted for longest, as many as are too many, but none of this turn. They start again if
// they are wanted again.
func (s *stand) makeRoom() error {
	keys := slices.SortedFunc(maps.Keys(s.sets), func(a, b string) int { return cmp.Compare(s.used[b], s.used[a]) })
	running := 0
	for _, key := range keys {
		for _, app := range s.sets[key] {
			if app.Pid() == 0 {
				continue
			}
			if running++; running <= most || s.used[key] == s.turn {
				continue
			}
			if err := app.Kill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal makes an instance that a scenario has frozen or killed serve again.
func (a *App) heal(ctx context.Context) error {
	if a.Pid() == 0 {
		a.frozen = false
		return a.Restart(ctx)
	}
	if !a.frozen {
		return nil
	}
	a.frozen = false
	return a.Resume()
}

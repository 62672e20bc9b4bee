// Package rig starts what a measurement over HTTP needs, loads it, and reads from the store and from /proc what became
// of it and what it cost.
package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of Side.DB
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
)

// Token is the admin token of the instances. They listen on this computer only.
const Token = "bench"

// Options say what a [Side] consists of.
type Options struct {
	Name      string // in messages
	Binary    string // the program of the instances: it is called with "serve"
	Instances int
	Want      []stack.Kind
	Env       []string // of the instances, besides the admin token
	// Each, if it is not empty, has the environment of single instances, besides Env. There are as many instances.
	Each     [][]string
	Affinity bool // nginx sends all requests for a SKU to the same instance
	// Foreign instances are no stock service: nothing is set or sold there.
	Foreign bool
	Tell    func(format string, args ...any) // progress
}

// A Side is one set of servers: stores, instances, and nginx with the project's own rules in front of them. Two
// versions of a program are two sides, and neither sees the other's data.
type Side struct {
	Name  string
	URL   string // of nginx
	Stack *stack.Stack
	Redis *redis.Client // nil: it has none
	DB    *sql.DB       // nil: it has none
	*loadtest.Client

	instances []*stack.Server
	servers   map[string]*stack.Server // by part; see [Side.CPU]
	asks      *http.Client
	catalogue []loadtest.Strategy
}

// Open starts a side. ctx bounds the start only. On error nothing is left running.
func Open(ctx context.Context, o Options) (s *Side, err error) {
	s = &Side{
		Name: o.Name, servers: map[string]*stack.Server{},
		asks: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", o.Name, errors.Join(err, s.Close()))
			s = nil
		}
	}()
	s.Stack, err = stack.Start(ctx, stack.Options{
		Want: o.Want, Binary: o.Binary, AnyPort: true, Affinity: o.Affinity,
		Env: append([]string{"STOCK_ADMIN_TOKEN=" + Token, "STOCK_DRAIN=0s"}, o.Env...),
		Progress: func(e stack.Event) {
			if e.What == "failed" || e.What == "missing" {
				o.Tell("%s: %s %s: %s", o.Name, e.Server, e.What, e.Detail)
			}
		},
	})
	if err != nil {
		return s, err
	}
	if err := s.openStores(ctx, o.Want); err != nil {
		return s, err
	}
	if len(o.Each) == 0 {
		s.instances, err = s.Stack.Serve(ctx, o.Instances)
	}
	for _, env := range o.Each {
		var one []*stack.Server
		if one, err = s.Stack.Serve(ctx, 1, env...); err != nil {
			break
		}
		s.instances = append(s.instances, one...)
	}
	if err != nil {
		return s, err
	}
	front, err := s.Stack.Front(ctx)
	if err != nil {
		return s, err
	}
	if err := real(front); err != nil {
		return s, err
	}
	s.servers["nginx"], s.URL = front, front.URL
	if o.Foreign {
		return s, nil
	}
	if s.Client, err = loadtest.NewClient(front.URL, Token, 1000); err != nil {
		return s, err
	}
	return s, s.ready(ctx)
}

// real refuses a stand-in: its speed says nothing.
func real(server *stack.Server) error {
	if server.StandIn != "" {
		return errors.New(server.StandIn)
	}
	return nil
}

// openStores connects to the stores, and sets them up as a shop has them.
func (s *Side) openStores(ctx context.Context, want []stack.Kind) error {
	for _, kind := range want {
		server := s.Stack.Server(string(kind))
		if server == nil {
			return errors.New(s.Stack.Missing()[string(kind)])
		}
		if err := real(server); err != nil {
			return err
		}
		s.servers[string(kind)] = server
	}
	if server := s.servers["redis"]; server != nil {
		s.Redis = redis.NewClient(&redis.Options{Addr: server.Addr})
	}
	server := s.servers["mysql"]
	if server == nil {
		return nil
	}
	var err error
	if s.DB, err = sql.Open("mysql", server.URL+"?interpolateParams=true"); err != nil {
		return err
	}
	for _, set := range []string{
		// Package stack gives up a second of commits for quick tests. Here a commit is on the disk before its reply.
		"innodb_flush_log_at_trx_commit = 1",
		// With the 16 MB of the tests MariaDB would be at a checkpoint all the time.
		"innodb_log_file_size = 256 * 1024 * 1024",
		"innodb_buffer_pool_size = 256 * 1024 * 1024",
	} {
		if _, err := s.DB.ExecContext(ctx, "SET GLOBAL "+set); err != nil {
			return fmt.Errorf("set up MariaDB: %s: %w", set, err)
		}
	}
	return nil
}

// readyBound is how long the instances may take to find all their servers.
const readyBound = 20 * time.Second

// ready waits until every strategy is available that has its servers here.
func (s *Side) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	for {
		var missing []string
		var err error
		if s.catalogue, err = s.Strategies(ctx); err == nil {
			for _, strategy := range s.catalogue {
				if !strategy.Available && !strings.Contains(strategy.Reason, "not configured") {
					missing = append(missing, strategy.Name+": "+strategy.Reason)
				}
			}
			if len(missing) == 0 {
				return nil
			}
			err = errors.New(strings.Join(missing, "; "))
		}
		if loadtest.Sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("the instances are not ready: %w", errors.Join(err, s.Alive()))
		}
	}
}

// Endpoint returns the path of a strategy.
func (s *Side) Endpoint(strategy string) (string, error) {
	found, err := loadtest.Find(s.catalogue, strategy)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	return found.Endpoint, nil
}

// Instances returns the instances.
func (s *Side) Instances() []*stack.Server { return s.instances }

// Close stops everything. It may be called on a side that is open in part.
func (s *Side) Close() error {
	if s == nil {
		return nil
	}
	var failed []error
	if s.Client != nil {
		s.Client.Close()
	}
	if s.Redis != nil {
		failed = append(failed, s.Redis.Close())
	}
	if s.DB != nil {
		failed = append(failed, s.DB.Close())
	}
	if s.Stack != nil {
		failed = append(failed, s.Stack.Stop())
	}
	return errors.Join(failed...)
}

// Alive returns an error if a server has died, with the end of its log.
func (s *Side) Alive() error {
	var dead []error
	check := func(server *stack.Server) {
		if server.Pid() == 0 {
			dead = append(dead, fmt.Errorf("%s of %s has died; the end of its log:\n%s", server.Name, s.Name,
				End(server.Log)))
		}
	}
	for _, server := range s.instances {
		check(server)
	}
	for _, server := range s.servers {
		check(server)
	}
	return errors.Join(dead...)
}

// logEnd is how much of a log is shown, in bytes.
const logEnd = 3000

// End returns the last lines of a file.
func End(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	if len(text) > logEnd {
		text = text[len(text)-logEnd:]
		if _, after, ok := strings.Cut(string(text), "\n"); ok {
			text = []byte(after)
		}
	}
	return strings.TrimSpace(string(text))
}

// Complaints returns the last warnings and errors in the logs of the instances, or nil if there are none.
func (s *Side) Complaints() error {
	var list []error
	for _, server := range s.instances {
		text, err := os.ReadFile(server.Log)
		if err != nil {
			continue
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) ||
				strings.HasPrefix(line, "panic") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		if len(lines) > 0 {
			list = append(list, fmt.Errorf("%s of %s warned, at last:\n%s", server.Name, s.Name,
				strings.Join(lines[max(0, len(lines)-3):], "\n")))
		}
	}
	return errors.Join(list...)
}

// Up is a dependency that is always up.
type Up struct{}

func (Up) Err() error          { return nil }
func (Up) Up() context.Context { return context.Background() }

package docs_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/zklock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// A step of a walk is a file and a function in it, as docs/architecture.md names them.
type step struct{ file, function string }

var walk = regexp.MustCompile("(?m)^\\| \\[([^\\]]+)\\]\\(\\.\\./[^)]+\\) \\| `([^`]+)` \\|")

// A request crosses the functions that docs/architecture.md names, in this order, and no others of this project.
func TestWalksCrossWhatTheyName(t *testing.T) {
	for _, row := range []struct {
		strategy, endpoint string
		from               string // the first function of the walk
	}{
		{"zk-sequential", "/deduct_stock_zk", "handler.sell"},
		{"atomic", "/deduct_stock_atomic", "handler.sell"},
		{"merged", "/deduct_stock_merged", "Queues.run"}, // the goroutine that sells a batch
	} {
		t.Run(row.strategy, func(t *testing.T) {
			crossed := sellBy(t, row.strategy, row.endpoint)
			first := slices.IndexFunc(crossed, func(s step) bool { return s.function == row.from })
			if first < 0 {
				t.Fatalf("%s was not crossed: %v", row.from, crossed)
			}
			crossed = crossed[first:]
			for _, file := range []string{"docs/architecture.md", "docs/architecture.zh-CN.md"} {
				if named := walkIn(t, file, row.endpoint); !slices.Equal(named, crossed) {
					t.Errorf("%s names\n%v, the request crossed\n%v", file, named, crossed)
				}
			}
		})
	}
}

// walkIn returns the table under the heading that names the endpoint.
func walkIn(t *testing.T, file, endpoint string) (named []step) {
	t.Helper()
	for section := range strings.SplitSeq(document(t, file), "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		if !strings.Contains(heading, endpoint) {
			continue
		}
		for _, m := range walk.FindAllStringSubmatch(text, -1) {
			named = append(named, step{m[1], m[2]})
		}
	}
	return named
}

// sellBy sends a request to an endpoint, and returns what it crossed on its way to the znode or to the store, or, if
// another goroutine asks for it, what that goroutine crossed.
func sellBy(t *testing.T, name, endpoint string) (crossed []step) {
	t.Helper()
	note := func() {
		if crossed == nil {
			crossed = callers(t)
		}
	}
	s, err := strategy.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	var servers strategy.Servers
	at := note
	if slices.Contains(s.Needs, strategy.ZooKeeper) {
		at = func() {}
		session, err := zklock.Dial(zklock.Config{
			Hosts:  []string{servertest.Server(t, server.ZooKeeper).URL},
			Called: func(context.Context, string) func(error) { note(); return func(error) {} },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		servers.ZooKeeper = session
	}
	seller, closer := s.Build(servers, nil)
	defer closer()
	sells := service.New(service.Config{
		Strategies: map[string]service.StrategyConfig{name: {Seller: seller, Blocking: true}},
		Stores: map[string]service.StoreConfig{
			"fake": {Store: &fakeStore{at: at}, Needs: up{}, Data: service.Trusted{}},
		},
		DefaultStore: "fake", Wait: time.Minute, Work: time.Minute,
	})
	h := handler.New(handler.Config{
		Service: sells, Strategies: []handler.Strategy{{Name: name, Endpoint: endpoint}}, DefaultSKU: "stock",
		Meter: noMeter{}, Log: slog.New(slog.DiscardHandler), Draining: func() bool { return false },
	})
	reply := httptest.NewRecorder()
	h.ServeHTTP(reply, httptest.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, http.NoBody))
	if reply.Code != http.StatusOK {
		t.Fatal(reply.Body)
	}
	return crossed
}

// callers returns the functions of this project on the stack, the outermost first, without those of this test. A
// function within another one counts as that one.
func callers(t *testing.T) (crossed []step) {
	stack := make([]uintptr, 100)
	frames := runtime.CallersFrames(stack[:runtime.Callers(2, stack)])
	root, err := filepath.Abs("..")
	if err != nil {
		t.Error(err)
	}
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		file, err := filepath.Rel(root, frame.File)
		if err != nil || strings.HasPrefix(file, "..") || strings.HasPrefix(file, "docs") {
			continue
		}
		at := step{file, around(t, frame)}
		if len(crossed) == 0 || crossed[len(crossed)-1] != at {
			crossed = append(crossed, at)
		}
	}
	slices.Reverse(crossed)
	return crossed
}

// around returns the name of the function that has the line of frame, with its receiver. The name in frame itself is
// another one if the compiler has inlined the function.
func around(t *testing.T, frame runtime.Frame) string {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, frame.File, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return ""
	}
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || frame.Line < positions.Position(f.Pos()).Line || positions.Position(f.End()).Line < frame.Line {
			continue
		}
		if f.Recv == nil {
			return f.Name.Name
		}
		receiver := types.ExprString(f.Recv.List[0].Type)
		receiver, _, _ = strings.Cut(strings.TrimPrefix(receiver, "*"), "[")
		return receiver + "." + f.Name.Name
	}
	return ""
}

// A fakeStore has 10 units, and calls at when it is asked to write.
type fakeStore struct {
	service.Shop
	at func()
}

func (s *fakeStore) Read(_ context.Context, sku service.SKU) (service.Stock, error) {
	return service.Stock{SKU: sku, Quantity: 10}, nil
}

func (s *fakeStore) Write(context.Context, service.Order) error {
	s.at()
	return nil
}

func (s *fakeStore) Swap(ctx context.Context, o service.Order) error { return s.Write(ctx, o) }

func (s *fakeStore) Deduct(_ context.Context, o service.Order) (service.Order, error) {
	s.at()
	return o, nil
}

func (s *fakeStore) Batch(_ context.Context, orders []service.Order) ([]service.BatchResult, error) {
	s.at()
	return make([]service.BatchResult, len(orders)), nil
}

type up struct{}

func (up) Err() error          { return nil }
func (up) Up() context.Context { return context.Background() }

type noMeter struct{}

func (noMeter) Request(string, string, int, time.Duration) {}
func (noMeter) Problem(string, string, string)             {}
func (noMeter) Ready(bool)                                 {}
func (noMeter) Deduction(string, string)                   {}

// Package stock_test guards the architecture: who may import whom.
package stock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "example.com/stock/"

// arrows lists for every package of the module the other packages of it that it may import, and why it may import no
// more.
var arrows = map[string]struct {
	may []string
	why string
}{
	// The service. The contract, and a driver for each lock server.
	"lock":        {nil, "the contract is small enough to copy into another project"},
	"lock/driver": {[]string{"lock"}, "what drivers share"},
	"lock/local":  {[]string{"lock", "lock/driver"}, "a driver knows the contract only"},
	"lock/redislock": {
		[]string{"lock", "lock/driver", "lock/driver/redisscript", "lock/redislock/internal/request"},
		"a driver knows the contract, and how its server is asked",
	},
	"lock/redislock/teaching": {
		[]string{"lock", "lock/driver", "lock/driver/redisscript", "lock/redislock/internal/request"},
		"the flawed locks know as much as the others, and neither knows the other",
	},
	"lock/redislock/internal/request": {
		[]string{"lock", "lock/driver", "lock/driver/rediserr", "lock/driver/redisscript"},
		"what the locks on Redis share, and what the server's errors mean",
	},
	"lock/zklock": {[]string{"lock", "lock/driver"}, "a driver knows the contract only"},
	"lock/mysqllock": {
		[]string{"lock", "lock/driver", "lock/driver/mysqlerr"},
		"a driver knows the contract, and what its server's errors mean",
	},
	"lock/driver/mysqlerr":    {nil, "a table of numbers: repo and lock/mysqllock must not import each other"},
	"lock/driver/rediserr":    {nil, "a table of replies: repo and lock/redislock must not import each other"},
	"lock/driver/redisscript": {nil, "it sends scripts once: repo and lock/redislock must not import each other"},

	// Selling, and what it is sold by.
	"service": {[]string{"internal/batching", "lock", "lock/driver"}, "the domain knows no HTTP, no SQL, no Redis"},
	"service/strategy": {
		[]string{
			"lock", "lock/driver", "lock/local", "lock/mysqllock", "lock/redislock", "lock/redislock/teaching",
			"lock/zklock", "service",
		},
		"the catalogue joins locks and ways to write",
	},

	// Storage, HTTP, and the instance that has them all.
	"repo": {
		[]string{
			"internal/mysqlconn", "lock", "lock/driver", "lock/driver/mysqlerr", "lock/driver/rediserr",
			"lock/driver/redisscript",
			"service",
		},
		"connections, and what their errors mean to the domain: it does not know what is kept",
	},
	"repo/stock": {
		[]string{
			"lock/driver/mysqlerr", "lock/driver/redisscript", "lock", "lock/driver", "repo", "service",
		},
		"the store on these connections",
	},
	"repo/repotest": {
		[]string{"lock/locktest/servertest", "repo"}, "databases for tests",
	},
	"handler": {
		[]string{"handler/text", "internal/words", "lock", "lock/driver", "service"},
		"HTTP knows the use cases, not what they are built on",
	},
	"handler/text": {
		[]string{"internal/words"},
		"what problems say: the service answers with it, clients find its Chinese",
	},
	"app": {
		[]string{
			"app/health", "app/metrics", "app/traces", "handler", "internal/mysqlconn", "internal/redisurl",
			"lock/driver/rediserr", "internal/words", "lock", "lock/driver", "lock/redislock", "lock/zklock", "repo",
			"repo/stock", "service", "service/strategy",
		},
		"one running instance: the only place that knows everything of which it is made, and nothing of the " +
			"command line or of load tests",
	},
	"app/health":  {[]string{"lock", "lock/driver"}, "it speaks of backends in the errors of the contract"},
	"app/metrics": {[]string{"lock"}, "it counts what locks and handlers tell it"},
	"app/traces":  {nil, "it puts spans around clients and locks, whichever: what they do is not its business"},

	// The proof: clients over HTTP, which judge by replies and by what servers hold, never by our code.
	"loadtest": {
		[]string{"handler/text", "internal/words"},
		"a client over HTTP: it must judge the service by its replies alone, and shows what problems say",
	},
	"loadtest/mapping": {
		[]string{"internal/words", "loadtest"},
		"a target of the load test: it knows no service but by the file that describes it",
	},
	"loadtest/checkout": {
		[]string{"internal/words", "loadtest"},
		"a client over HTTP, and a consumer of events: it must judge orders by what it is told, not by their code",
	},
	"loadtest/tally": {
		[]string{"internal/words"},
		"what other load tools print: it knows no service and no judge",
	},
	"loadtest/report": {
		[]string{"internal/words", "loadtest", "loadtest/checkout"},
		"it shows what the load test found, and asks nobody else",
	},
	"lab": {
		[]string{
			"internal/mysqlconn", "internal/stack", "internal/words", "loadtest", "loadtest/checkout",
			"lock/locktest/server", "lock/locktest/wire",
		},
		"a client over HTTP, and hands on servers: what it says of our locks must not come from our locks",
	},
	"lab/scenario": {
		[]string{
			"internal/words", "lab", "loadtest", "loadtest/checkout", "lock/locktest/server", "lock/locktest/wire",
		},
		"a client over HTTP, as lab is: what it says of our locks must not come from our locks",
	},
	"lab/soak": {
		[]string{
			"internal/stack", "internal/words", "loadtest", "loadtest/checkout", "lock/locktest/server",
			"lock/locktest/wire",
		},
		"a client over HTTP, as lab is, and no scenario",
	},
	"lab/engine": {
		[]string{
			"internal/mysqlconn", "internal/redisurl", "internal/stack", "internal/words", "loadtest",
			"loadtest/checkout", "lock/locktest/server",
		},
		"a client over HTTP, as lab is, with hands on somebody's servers to make room for a test and to clean up",
	},
	"lab/diagram": {[]string{"internal/words", "lab"}, "it draws what the lab has recorded, and asks nobody else"},
	"lab/grade": {
		[]string{
			"internal/stack", "internal/words", "lab", "lab/diagram", "loadtest", "lock/locktest/server",
			"lock/locktest/wire",
		},
		"it grades the locks of others: it knows none of ours, and judges by its own store",
	},
	"lab/report": {
		[]string{"internal/words", "lab", "lab/diagram"},
		"it shows what the lab found, and asks nobody else",
	},
	"lock/locktest": {
		[]string{"lock/locktest/wire", "lock", "lock/driver"},
		"the suite knows the contract and the wire, so that any lock can be put to it",
	},
	"lock/locktest/server":     {nil, "it starts servers, and knows nothing of what is built on them"},
	"lock/locktest/servertest": {[]string{"lock/locktest/server"}, "servers for tests"},
	"lock/locktest/wire":       {nil, "bytes between any client and any server"},

	// The class.
	"lab/class": {
		[]string{
			"internal/stack", "internal/words", "lab", "lab/diagram", "loadtest", "lock/locktest/server",
			"lock/locktest/wire",
		},
		"a client over HTTP, which also plays what loads have recorded: what the wall shows comes from what " +
			"instances tell, not from their code",
	},

	// What several need. Nothing here imports from a room, files aside.
	"internal/batching":        {nil, "what waits is served in batches: it knows no sales"},
	"internal/redisurl":        {nil, "a URL: app and lab must not import each other"},
	"internal/mysqlconn":       {nil, "verified connections: repo and lab must not import each other"},
	"internal/words":           {nil, "texts in two languages, for all that speak to people"},
	"internal/words/wordstest": {[]string{"internal/words"}, "words for tests"},
	"internal/stack": {
		[]string{"deploy", "lock/locktest/server", "lock/locktest/wire"},
		"it starts a demonstration, and breaks its links",
	},
	"internal/stack/stacktest":   {[]string{"internal/stack", "lock/locktest/servertest"}, "stack for tests"},
	"internal/stack/browsertest": {nil, "a browser for tests, which knows no page"},
	"internal/starter":           {[]string{"internal/words", "lock"}, "it writes code, and runs none"},
	"deploy":                     {nil, "files, and what rewrites them"},
	".":                          {nil, "files of this project, embedded: only the root can hold them"},

	"cmd/stock": {
		[]string{
			"app", "internal/stack", "internal/starter", "internal/words", "lab", "lab/class", "lab/engine",
			"lab/grade", "lab/report",
			"lab/scenario", "lab/soak", "loadtest", "loadtest/checkout", "loadtest/mapping", "orders/cmd",
			"loadtest/report", "loadtest/tally", "lock", "lock/driver", "lock/locktest/server", "service/strategy",
		},
		"commands are thin: the service is app's; lock and strategy are for stock lock and stock strategies",
	},
}

// thirdParty lists the third-party modules that must stay in the packages listed.
var thirdParty = map[string]struct {
	packages []string
	why      string
}{
	"github.com/gin-gonic/gin": {[]string{"handler"}, "HTTP is the handler's business"},
	"github.com/spf13/viper":   {[]string{"app"}, "everybody else gets typed values"},
	"github.com/spf13/cobra":   {[]string{"cmd/stock"}, "the command line is cmd's business"},
	"gorm.io/":                 {[]string{"repo", "repo/repotest", "repo/stock"}, "SQL is storage's business"},
	"github.com/pressly/goose": {[]string{"repo"}, "the schema is storage's business"},
	"github.com/redis/go-redis": {
		[]string{
			"app", "app/traces", "internal/redisurl", "lab", "lab/engine", "lab/grade", "lab/scenario", "lab/soak",
			"loadtest/checkout",
			"lock/driver/redisscript", "lock/locktest/server", "lock/locktest/servertest", "lock/redislock",
			"lock/redislock/internal/request", "lock/redislock/teaching", "repo", "repo/stock", "service/strategy",
		},
		"redisscript sends what repo and lock/redislock ask for, loadtest/checkout consumes streams, strategy, app " +
			"and server pass the client on, lab shows the code that people write and asks servers for evidence",
	},
	"github.com/go-zookeeper/zk": {
		[]string{"lock/zklock", "lab/engine", "lab/scenario"},
		"its Lock is not to be used, and its Conn needs care, as lab shows; engine removes nodes with it",
	},
	"github.com/go-sql-driver/mysql": {
		[]string{
			"app", "internal/mysqlconn", "lab", "lab/engine", "lab/scenario", "lock/driver/mysqlerr",
			"lock/locktest/server", "lock/locktest/servertest", "repo",
		},
		"app checks DSNs, server asks whether a server is up, lab shows the code that people write",
	},
	"rsc.io/qr":                         {[]string{"lab/class"}, "only students scan an address"},
	"gonum.org/v1/plot":                 {[]string{"loadtest/report"}, "pictures are the report's business"},
	"github.com/anishathalye/porcupine": {nil, "only tests search for an order of requests"},
	"github.com/XSAM/otelsql":           {[]string{"app/traces"}, "it makes spans"},
	"go.opentelemetry.io/": {
		[]string{"app/traces", "handler"},
		"handler begins the spans of requests by otelgin, which needs gin; everybody else has hooks",
	},
	"github.com/prometheus/client_golang": {[]string{"app/metrics"}, "one place names the series"},
	"github.com/alicebob/miniredis": {
		[]string{"lock/locktest/server"},
		"a stand-in for a computer without redis-server",
	},
}

func TestImportArrows(t *testing.T) {
	imports := importsOf(t, "")
	for pkg, list := range imports {
		if strings.HasPrefix(pkg, "orders/") {
			continue
		}
		rule, known := arrows[pkg]
		if !known {
			t.Errorf("%s has no rule: add it to arrows, with a reason", pkg)
			continue
		}
		for _, imported := range list {
			inside, ours := strings.CutPrefix(imported, module)
			if ours && !slices.Contains(rule.may, inside) {
				t.Errorf("%s imports %s: %s", pkg, inside, rule.why)
			}
			for path, g := range thirdParty {
				if strings.HasPrefix(imported, path) && !slices.Contains(g.packages, pkg) {
					t.Errorf("%s imports %s: %s", pkg, imported, g.why)
				}
			}
		}
	}
	for pkg := range arrows {
		if _, exists := imports[pkg]; !exists {
			t.Errorf("arrows has a rule for %s, which does not exist", pkg)
		}
	}
}

// inOrders lists where third-party modules may be imported in orders, which imports nothing else of this tree, so that
// it can be copied.
var inOrders = map[string][]string{
	"github.com/gin-gonic/gin":       {"orders/api", "orders/handler"},
	"github.com/golang-jwt/jwt":      {"orders/handler", "orders/cmd"},
	"github.com/spf13/viper":         {"orders/config"},
	"github.com/spf13/cobra":         {"orders/cmd"},
	"gorm.io/":                       {"orders/repo"},
	"github.com/pressly/goose":       {"orders/repo"},
	"github.com/go-sql-driver/mysql": {"orders/internal/mariadb", "orders/repo"},
	"github.com/redis/go-redis":      {"orders/outbox", "orders/app"},
}

func TestOrdersStandsAlone(t *testing.T) {
	checked := 0
	for _, kind := range []string{"", "_test"} {
		for pkg, list := range importsOf(t, kind) {
			if !strings.HasPrefix(pkg, "orders/") {
				continue
			}
			checked++
			for _, imported := range list {
				if inside, ours := strings.CutPrefix(imported, module); ours && !strings.HasPrefix(inside, "orders/") {
					t.Errorf("%s imports %s, and could not be copied alone", pkg, inside)
				}
				for path, places := range inOrders {
					if kind == "" && strings.HasPrefix(imported, path) && !slices.Contains(places, pkg) {
						t.Errorf("%s imports %s, whose place is %v", pkg, imported, places)
					}
				}
			}
		}
	}
	if checked < 6 {
		t.Errorf("%d packages of orders were found", checked)
	}
}

// A connection to MySQL that is opened elsewhere is not verified to read values as the driver escapes them.
func TestOnlyOnePlaceConnectsToMySQL(t *testing.T) {
	for pkg, imports := range importsOf(t, "") {
		elsewhere := pkg == "internal/mysqlconn" || strings.HasSuffix(pkg, "test") ||
			strings.HasPrefix(pkg, "lock/locktest/") || strings.HasPrefix(pkg, "orders/")
		if elsewhere || !slices.Contains(imports, "database/sql") {
			continue
		}
		for _, name := range goFiles(t, pkg) {
			ast.Inspect(parsed(t, name), func(n ast.Node) bool {
				call, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				of, ok := call.X.(*ast.Ident)
				if ok && (of.Name == "sql" && call.Sel.Name == "Open" ||
					of.Name == "mysql" && (call.Sel.Name == "NewConnector" || call.Sel.Name == "Open")) {
					t.Errorf("%s calls %s.%s: use mysqlconn.NewConnector", name, of.Name, call.Sel.Name)
				}
				return true
			})
		}
	}
}

// The contract can be copied into another project: it needs the standard library alone.
func TestLockIsStandardLibraryOnly(t *testing.T) {
	for _, imported := range importsOf(t, "")["lock"] {
		if strings.Contains(imported, ".") {
			t.Errorf("lock imports %s", imported)
		}
	}
}

// The domain is tested without a driver or a server, so that its tests go where it goes. What needs one is in
// service/selltest.
func TestTheDomainIsTestedWithoutDrivers(t *testing.T) {
	tests := importsOf(t, "_test")["service"]
	for _, imported := range tests {
		inside, ours := strings.CutPrefix(imported, module)
		third := strings.Contains(imported, ".") && imported != "go.uber.org/goleak"
		if ours && inside != "service" && !slices.Contains(arrows["service"].may, inside) || !ours && third {
			t.Errorf("a test of service imports %s: its place is service/selltest, repo or app", imported)
		}
	}
	if tests == nil {
		t.Error("service has no tests")
	}
}

func parsed(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// importsOf returns the imports of every package of the module: those of its tests (kind "_test"), or of the others
// (kind "").
func importsOf(t *testing.T, kind string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			base := entry.Name()
			skipped := []string{"testdata", "examples", "out"}
			if base != "." && (strings.HasPrefix(base, ".") || slices.Contains(skipped, base)) {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && base != "." && name != "lock" {
				return filepath.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") != (kind == "_test") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(name))
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			found[pkg] = append(found[pkg], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// goFiles returns the files of a package, without its tests.
func goFiles(t *testing.T, pkg string) []string {
	t.Helper()
	all, err := filepath.Glob(pkg + "/*.go")
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %v, %v", pkg, all, err)
	}
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

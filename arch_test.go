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

// rules say which other packages of the module a package may import, and why no more. A name that ends in "/..." stands
// for the package and for all below it. The rule with the package's own name counts, or that of the nearest folder.
var rules = map[string]struct{ may, why string }{
	// The locks, which are a module of their own.
	"lock":            {"", "the contract is small enough to copy into another project"},
	"lock/...":        {"lock lock/driver/...", "a driver knows the contract and its server's errors"},
	"lock/driver/...": {"lock", "repo and the drivers share it, and must not import each other"},
	"lock/redislock/...": {
		"lock lock/driver/... lock/redislock/internal/...",
		"what the locks on Redis share is below them, and the flawed ones know as much as the others",
	},
	"lock/locktest":            {"lock lock/driver lock/locktest/wire", "any lock can be put to the suite"},
	"lock/locktest/server":     {"", "it starts servers, and knows nothing of what is built on them"},
	"lock/locktest/servertest": {"lock/locktest/server", "servers for tests"},
	"lock/locktest/wire":       {"", "bytes between any client and any server"},

	// The service.
	"service": {"internal/batching lock lock/driver", "the domain knows no HTTP, no SQL, no Redis"},
	"service/strategy": {
		"lock lock/driver lock/local lock/mysqllock lock/redislock/... lock/zklock service",
		"the catalogue joins locks and ways to write",
	},
	"repo": {
		"internal/mysqlconn lock lock/driver/... service",
		"connections, and what their errors mean to the domain: it does not know what is kept",
	},
	"repo/stock":    {"lock lock/driver/... repo service", "the store on these connections"},
	"repo/repotest": {"lock/locktest/servertest repo", "databases for tests"},
	"handler": {
		"handler/text internal/words lock lock/driver service", "HTTP knows the use cases, not what they are built on",
	},
	"handler/text": {"internal/words", "what problems say: the service answers with it, clients find its Chinese"},
	"app": {
		"app/... handler internal/... lock/... repo repo/stock service/...",
		"one running instance: the only place that knows everything of which it is made, and nothing of the command " +
			"line or of load tests",
	},
	"app/health":  {"lock lock/driver", "it speaks of backends in the errors of the contract"},
	"app/metrics": {"lock", "it counts what locks and handlers tell it"},
	"app/traces":  {"", "it puts spans around clients and locks, whichever: what they do is not its business"},

	// The proof: clients over HTTP, which judge by replies and by what servers hold, never by our code.
	"loadtest":          {"handler/text internal/words", "it judges by replies, and shows what problems say"},
	"loadtest/mapping":  {"internal/words loadtest", "it knows no service but by the file that describes it"},
	"loadtest/checkout": {"internal/words loadtest", "it judges orders by replies and events, not by their code"},
	"loadtest/tally":    {"internal/words", "what other load tools print: it knows no service and no judge"},
	"loadtest/report":   {"internal/words loadtest loadtest/checkout", "it shows what was found, and asks nobody else"},
	"lab/...": {
		"internal/mysqlconn internal/redisurl internal/stack internal/words lab lab/diagram " +
			"loadtest loadtest/checkout lock/locktest/server lock/locktest/wire",
		"a client over HTTP, and hands on servers: what it says of locks must not come from our locks",
	},
	"lab/diagram": {"internal/words lab", "it draws what the lab has recorded, and asks nobody else"},
	"lab/report":  {"internal/words lab lab/diagram", "it shows what the lab found, and asks nobody else"},

	// What several need. Nothing here imports from a room, files aside.
	"internal/...": {"", "rooms import it"},
	"internal/stack/...": {
		"deploy internal/stack lock/locktest/server lock/locktest/servertest lock/locktest/wire",
		"it starts a demonstration, and breaks its links",
	},
	"internal/starter":   {"internal/words lock", "it writes code, and runs none"},
	"internal/words/...": {"internal/words", "texts in two languages, for all that speak to people"},
	"deploy":             {"", "files, and what rewrites them"},
	".":                  {"", "files of this project, embedded: only the root can hold them"},
	"orders/...":         {"orders/...", "it can be copied alone"},
	"cmd/stock": {
		"app internal/stack internal/starter internal/words lab/... loadtest/... lock lock/driver " +
			"lock/locktest/server orders/cmd service/strategy",
		"commands are thin: the service is app's; lock and strategy are for stock lock and stock strategies",
	},
}

// thirdParty lists the packages to which a module of others is confined, and why.
var thirdParty = map[string]struct{ packages, why string }{
	"github.com/gin-gonic/gin":  {"handler orders/api orders/handler", "HTTP is the handler's business"},
	"github.com/golang-jwt/jwt": {"loadtest orders/cmd orders/handler", "a token is checked at the door"},
	"github.com/spf13/viper":    {"app orders/config", "everybody else gets typed values"},
	"github.com/spf13/cobra":    {"cmd/stock orders/cmd", "the command line is cmd's business"},
	"gorm.io/":                  {"repo/... orders/repo", "SQL is storage's business"},
	"github.com/pressly/goose":  {"repo orders/repo", "the schema is storage's business"},
	"github.com/redis/go-redis": {
		"app/... internal/redisurl lab/... loadtest/checkout lock/... orders/app orders/outbox repo/... " +
			"service/strategy",
		"lab shows the code that people write, loadtest/checkout consumes streams, app and strategy pass the client on",
	},
	"github.com/go-zookeeper/zk": {
		"lock/zklock lab/engine lab/scenario",
		"its Lock is not to be used, and its Conn needs care, as lab shows; engine removes nodes with it",
	},
	"github.com/go-sql-driver/mysql": {
		"app internal/mysqlconn lab/... lock/driver/mysqlerr lock/locktest/... orders/internal/mariadb orders/repo " +
			"repo",
		"app checks DSNs, server asks whether a server is up, lab shows the code that people write",
	},
	"rsc.io/qr":                         {"lab/class", "only students scan an address"},
	"github.com/anishathalye/porcupine": {"", "only tests search for an order of requests"},
	"github.com/XSAM/otelsql":           {"app/traces orders/...", "it makes spans"},
	"go.opentelemetry.io/": {
		"app/traces handler orders/...",
		"handler begins the spans of requests by otelgin, which needs gin; everybody else has hooks",
	},
	"github.com/prometheus/client_golang": {"app/metrics orders/...", "one place names the series"},
	"github.com/alicebob/miniredis":       {"lock/locktest/server", "a stand-in for a computer without redis-server"},
}

// among reports whether a list of names, with blanks between them, has a package.
func among(list, pkg string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(name string) bool { return covers(name, pkg) })
}

// covers reports whether a name is that of a package, or of a folder above it ("lock/...").
func covers(name, pkg string) bool {
	folder, all := strings.CutSuffix(name, "/...")
	return pkg == folder || all && strings.HasPrefix(pkg, folder+"/")
}

// ruleOf returns the name of the rule for a package, or "".
func ruleOf(pkg string) string {
	if _, own := rules[pkg]; own {
		return pkg
	}
	for folder := pkg; folder != "."; folder = path.Dir(folder) {
		if _, found := rules[folder+"/..."]; found {
			return folder + "/..."
		}
	}
	return ""
}

func TestImportArrows(t *testing.T) {
	used := map[string]bool{}
	for pkg, list := range importsOf(t, "") {
		rule := ruleOf(pkg)
		used[rule] = true
		if rule == "" {
			t.Errorf("%s has no rule: add it to rules, with a reason", pkg)
			continue
		}
		for _, imported := range list {
			inside, ours := strings.CutPrefix(imported, module)
			if ours && !among(rules[rule].may, inside) {
				t.Errorf("%s imports %s: %s", pkg, inside, rules[rule].why)
			}
			for path, only := range thirdParty {
				if strings.HasPrefix(imported, path) && !among(only.packages, pkg) {
					t.Errorf("%s imports %s: %s", pkg, imported, only.why)
				}
			}
		}
	}
	for name := range rules {
		if !used[name] {
			t.Errorf("there is a rule for %s, and no package that needs it", name)
		}
	}
}

// The tests of orders can be copied alone, too.
func TestOrdersStandsAlone(t *testing.T) {
	for pkg, list := range importsOf(t, "_test") {
		for _, imported := range list {
			inside, ours := strings.CutPrefix(imported, module)
			if covers("orders/...", pkg) && ours && !covers("orders/...", inside) {
				t.Errorf("a test of %s imports %s", pkg, inside)
			}
		}
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
			ast.Inspect(parsed(t, token.NewFileSet(), name), func(n ast.Node) bool {
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
		if ours && inside != "service" && !among(rules["service"].may, inside) || !ours && third {
			t.Errorf("a test of service imports %s: its place is service/selltest, repo or app", imported)
		}
	}
	if tests == nil {
		t.Error("service has no tests")
	}
}

func parsed(t *testing.T, set *token.FileSet, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
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

// Package stock_test guards the architecture: who may import whom.
package stock_test

import (
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
	"lock":           {nil, "the contract is small enough to copy into another project"},
	"lock/local":     {[]string{"lock"}, "a driver knows the contract only"},
	"lock/redislock": {[]string{"lock"}, "a driver knows the contract only"},
	"lock/zklock":    {[]string{"lock"}, "a driver knows the contract only"},
	"lock/mysqllock": {
		[]string{"lock", "mysqlerr"},
		"a driver knows the contract, and what its server's errors mean",
	},
	"lock/locktest": {
		[]string{"lock", "stack/wire"},
		"the suite knows the contract and the wire, so that any lock can be put to it",
	},
	"lock/explore":           {nil, "a search in a graph, for tests: it knows no lock"},
	"lock/explore/pureredis": {nil, "Redis as a function, for tests: what it runs is its caller's"},
	"health":                 {[]string{"lock"}, "it speaks of backends in the errors of the contract"},
	"gate": {[]string{"lock"}, "it bounds what goes to a server, whichever, and speaks in the errors " +
		"of the contract"},
	"batching": {nil, "what waits is served in batches: it knows neither sales nor orders"},
	"service":  {[]string{"batching", "lock"}, "the domain knows no HTTP, no SQL, no Redis"},
	"order": {
		[]string{"batching", "lock", "service"},
		"the domain of orders, which names SKUs and errors as selling does",
	},
	"repo": {
		[]string{"order", "service", "lock", "mysqlerr", "gate"},
		"storage implements what the domain declares",
	},
	"relay": {
		[]string{"order", "service", "lock"},
		"it takes from the ledger what it announces, and is under any lock: app says which store and which lock",
	},
	"archive": {
		[]string{"order", "service", "lock"},
		"it takes from the ledger what is old, and knows files alone: app says which store",
	},
	"mysqlerr": {nil, "a table of numbers, for the two that speak to MySQL and must not know each other"},
	"handler": {
		[]string{"handler/text", "order", "service", "lock", "words"},
		"HTTP knows the use cases, not what they are built on",
	},
	"metrics": {[]string{"lock"}, "it counts what locks and handlers tell it"},
	"strategy": {[]string{
		"lock", "lock/local", "lock/redislock", "lock/zklock", "lock/mysqllock",
		"service",
	}, "the catalogue joins locks and ways to write"},
	"words":           {nil, "texts in two languages, for whoever speaks to people"},
	"words/wordstest": {[]string{"words"}, "words for tests"},
	"handler/text":    {[]string{"words"}, "what problems say: the service answers with it, clients find its Chinese"},
	"loadtest": {
		[]string{"handler/text", "words"},
		"a client over HTTP: it must judge the service by its replies alone, and shows what problems say",
	},
	"loadtest/mapping": {
		[]string{"loadtest", "words"},
		"a target of the load test: it knows no service but by the file that describes it",
	},
	"loadtest/checkout": {
		[]string{"loadtest", "words"},
		"a client over HTTP, and a consumer of events: it must judge orders by what it is told, not by their code",
	},
	"loadtest/tally": {
		[]string{"words"},
		"what other load tools print: it knows no service and no judge",
	},
	"loadtest/report": {
		[]string{"loadtest", "loadtest/checkout", "words"},
		"it shows what the load test found, and asks nobody else",
	},
	"lab": {
		[]string{"loadtest", "stack", "stack/wire", "words"},
		"a client over HTTP, and hands on servers: what it says of our locks must not come from our locks",
	},
	"lab/scenario": {
		[]string{"lab", "loadtest", "stack", "stack/wire", "words"},
		"a client over HTTP, as lab is: what it says of our locks must not come from our locks",
	},
	"lab/soak": {
		[]string{"loadtest", "loadtest/checkout", "stack", "stack/wire", "words"},
		"a client over HTTP, as lab is, and no scenario",
	},
	"class": {
		[]string{"lab", "lab/diagram", "loadtest", "stack", "stack/wire", "words"},
		"a client over HTTP, which also plays what loads and the lab have recorded: what the wall shows comes from " +
			"what instances tell, not from their code",
	},
	"lab/diagram":       {[]string{"lab", "words"}, "it draws what the lab has recorded, and asks nobody else"},
	"lab/report":        {[]string{"lab", "lab/diagram", "words"}, "it shows what the lab found, and asks nobody else"},
	"deploy":            {nil, "files, and what rewrites them"},
	"stack":             {[]string{"deploy"}, "it starts servers, it does not know what they are for"},
	"stack/stacktest":   {[]string{"stack"}, "stack for tests"},
	"stack/browsertest": {nil, "a browser for tests, which knows no page"},
	"stack/wire":        {nil, "bytes between any client and any server"},
	"app": {
		[]string{
			"archive", "gate", "handler", "health", "lock", "lock/redislock", "lock/zklock", "metrics", "order",
			"relay", "repo", "service", "strategy", "words",
		},
		"one running instance: the only place that knows everything of which it is made, and nothing of the " +
			"command line or of load tests",
	},
	".":       {nil, "files of this project, embedded: only the root can hold them"},
	"starter": {[]string{"words"}, "it writes the code of others, and runs none of it"},
	"mutate":  {nil, "it reads and compiles the code of others, and runs none of it itself"},
	"cmd/stock": {
		[]string{
			"app", "archive", "class", "lab", "lab/report", "lab/scenario", "lab/soak", "loadtest", "loadtest/checkout",
			"loadtest/mapping", "loadtest/report", "loadtest/tally", "lock", "order", "service", "stack",
			"starter", "strategy", "words",
		},
		"commands are thin: the service is app's; lock and strategy are for stock lock and stock strategies, order " +
			"and service for the law that stock audit checks, archive for what stock archive reports",
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
	"gorm.io/":                 {[]string{"repo"}, "SQL is storage's business"},
	"github.com/pressly/goose": {[]string{"repo"}, "the schema is storage's business"},
	"github.com/redis/go-redis": {
		[]string{
			"repo", "relay", "lock/redislock", "strategy", "app", "stack", "lab", "lab/scenario", "loadtest/checkout",
		},
		"relay publishes on streams, loadtest/checkout consumes them, strategy, app and stack pass the client on, " +
			"lab shows the code that people write and asks servers for evidence",
	},
	"github.com/go-zookeeper/zk": {
		[]string{"lock/zklock", "lab/scenario"},
		"its Lock is not to be used, and its Conn needs care, as lab shows",
	},
	"github.com/go-sql-driver/mysql": {
		[]string{"repo", "mysqlerr", "app", "stack", "stack/stacktest", "lab", "lab/scenario"},
		"app checks and masks DSNs, stack asks whether a server is up, lab shows the code that people write",
	},
	"rsc.io/qr":                           {[]string{"class"}, "only students scan an address"},
	"gonum.org/v1/plot":                   {[]string{"loadtest/report"}, "pictures are the report's business"},
	"github.com/anishathalye/porcupine":   {[]string{"loadtest"}, "judging is the load test's business"},
	"github.com/prometheus/client_golang": {[]string{"metrics"}, "one place names the series"},
	"github.com/alicebob/miniredis": {
		[]string{"stack", "lock/explore/pureredis"},
		"a stand-in for a computer without redis-server, and for tests that run a script from a million states",
	},
}

func TestImportArrows(t *testing.T) {
	imports := importsOf(t, "")
	for pkg, list := range imports {
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
	of := importsOf(t, "_test")
	for _, pkg := range []string{"service", "order"} {
		for _, imported := range of[pkg] {
			inside, ours := strings.CutPrefix(imported, module)
			third := strings.Contains(imported, ".") && imported != "go.uber.org/goleak"
			if ours && inside != pkg && !slices.Contains(arrows[pkg].may, inside) || !ours && third {
				t.Errorf("a test of %s imports %s: its place is service/selltest, repo or app", pkg, imported)
			}
		}
		if of[pkg] == nil {
			t.Errorf("%s has no tests", pkg)
		}
	}
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
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && base != "." {
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

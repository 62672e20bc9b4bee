package starter_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/internal/starter"
	"example.com/stock/internal/words"
	"example.com/stock/internal/words/wordstest"
)

func choice() starter.Choice {
	return starter.Choice{
		Module: "github.com/acme/orders", Strategies: []string{"atomic"}, Stores: []string{"mysql"}, Version: "test",
	}
}

// What cannot be written is refused with all that is wrong, in both languages, and nothing is written.
func TestWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		change func(*starter.Choice)
		en, zh string
	}{
		{func(c *starter.Choice) { c.Module = "orders" }, `"orders": is no module path`, "不是模块路径"},
		{func(c *starter.Choice) { c.Module = "github.com/acme/Orders" }, "names the program", "最后一段是程序名"},
		{func(c *starter.Choice) { c.Module = "github.com/acme/1a" }, "begin with a letter", "以字母开头"},
		{func(c *starter.Choice) { c.Module = "github.com/acme/x-" }, "names the program", "单个 - _ ."},
		{func(c *starter.Choice) { c.Module = "github.com/acme/x..y" }, "names the program", "单个 - _ ."},
		{
			func(c *starter.Choice) { c.Module = "github.com/acme/" + strings.Repeat("x", 33) },
			"at most 32 characters", "最多 32 个字符",
		},
		{func(c *starter.Choice) { c.Module = "github.com/acme/vendor" }, `element "vendor"; the go`, `含有 "vendor"`},
		{func(c *starter.Choice) { c.Module = "github.com/vendor/x" }, `has the element "vendor"`, `含有 "vendor"`},
		{func(c *starter.Choice) { c.Module = "github.com/acme/testdata" }, `element "testdata"`, `含有 "testdata"`},
		{func(c *starter.Choice) { c.Module = "github.com/acme/testdata/v2" }, `element "testdata"`, `含有 "testdata"`},
		{func(c *starter.Choice) { c.Module = "github.com/acme/_x" }, `has the element "_x"`, `含有 "_x"`},
		{func(c *starter.Choice) { c.Module = "github.com/acme/.x" }, "leading dot in path element", "不是模块路径"},
		{func(c *starter.Choice) { c.Module = "github.com/acme/x/v1" }, "is no module path", "不是模块路径"},
		{func(c *starter.Choice) { c.Module = "std" }, "is no module path", "不是模块路径"},
		{func(c *starter.Choice) { c.Module = "github.com/acme/mysql" }, `"mysql" is the name of a`, "已经是某个服务器"},
		{func(c *starter.Choice) { c.Module = "github.com/acme/grafana" }, `"grafana" is the`, "已经是某个服务器"},
		{func(c *starter.Choice) { c.Module = "github.com/acme/root/v3" }, `"root" is the name of a`, "已经是某个服务器"},
		{func(c *starter.Choice) { c.Module = "github.com/gin-gonic/gin" }, "needs the module of that", "要用到这个名字"},
		{func(c *starter.Choice) { c.Module = "example.com/stock" }, "this project's own", "本项目自己的"},
		{func(c *starter.Choice) { c.Module = "example.com/stock/app" }, "this project's own", "本项目自己的"},
		{
			func(c *starter.Choice) { c.Stores = []string{"mysq"} },
			`--stores: "mysq" is none of mysql, redis`, `"mysq" 不在可选之列：mysql, redis`,
		},
		{
			func(c *starter.Choice) { c.With = []string{"alert"} },
			"--with: \"alert\" is none",
			`--with："alert" 不在可选之列：traces`,
		},
		{func(c *starter.Choice) { c.Strategies = []string{"none"} }, `"none" is none of ato`, "不在可选之列：ato"},
		{
			func(c *starter.Choice) { c.Strategies = []string{"atomic", "atomic"} },
			"atomic is named twice", "atomic 写了两次",
		},
		{
			func(c *starter.Choice) { c.Strategies, c.With = []string{"atomic"}, []string{"handover"} },
			"has no lock; name redis-watchdog, zk-sequential in", "请在 --strategies 里写上 redis-watchdog",
		},
		{func(c *starter.Choice) { c.Stores = nil }, "--stores: name at least one", "--stores：至少要写一个"},
		{
			func(c *starter.Choice) { c.Stores, c.Strategies = nil, nil },
			"--strategies: name at least one of atomic, redis-watchdog, zk-sequential\n--stores:", "--stores：至少",
		},
	} {
		c := choice()
		row.change(&c)
		dir := filepath.Join(t.TempDir(), "new")
		err := starter.New(dir, c)
		if err == nil {
			t.Errorf("%+v was written", c)
			continue
		}
		if said := words.Of(err); !strings.Contains(said.EN, row.en) || !strings.Contains(said.ZH, row.zh) {
			t.Errorf("%+v: %q and %q, want %q and %q", c, said.EN, said.ZH, row.en, row.zh)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%+v: something was written", c)
		}
	}
}

// Every text is there in both languages, and is said.
func TestTheErrorsHaveTheirTexts(t *testing.T) {
	t.Parallel()
	wordstest.Catalogue(t, words.NewPhrasebook(os.DirFS("."), "text"), map[string]wordstest.Speaker{"Error": {}})
}

func TestAFolderThatIsNotEmptyStaysAsItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := starter.New(dir, choice()); err == nil || !strings.Contains(err.Error(), "is not empty: it has mine") {
		t.Errorf("%v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// A folder that is there and empty is written into, also the one in which somebody stands.
func TestAFolderThatIsEmptyIsFilled(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := starter.New(".", choice()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("go.mod"); err != nil {
		t.Error(err)
	}
	if list, err := filepath.Glob(filepath.Dir(dir) + "/.*"); err != nil || len(list) > 0 {
		t.Errorf("left beside it: %v, %v", list, err)
	}
}

// Every choice can be written, names nothing of this project's paths, and is small.
func TestChoices(t *testing.T) {
	t.Parallel()
	for _, c := range []starter.Choice{
		choice(),
		{Module: "github.com/acme/my-shop/v2", Strategies: []string{"zk-sequential"}, Stores: []string{"mysql"}},
		{Module: "github.com/acme/go", Strategies: starter.Strategies(), Stores: starter.Stores()},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if err := starter.New(dir, c); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			for _, old := range []string{"example.com/stock", "STOCK_", "«", "cmd/stock"} {
				if bytes.Contains(text, []byte(old)) {
					t.Errorf("%s has %s", name, old)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// written writes a choice, and returns a func that reads a file of it, or "" if there is none.
func written(t *testing.T, c starter.Choice) (dir string, read func(name string) string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "new")
	if err := starter.New(dir, c); err != nil {
		t.Fatal(err)
	}
	return dir, func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return string(text)
	}
}

// The new names are those of the module, without its version.
func TestNames(t *testing.T) {
	t.Parallel()
	c := choice()
	c.Module = "github.com/acme/my-shop/v2"
	dir, read := written(t, c)
	for name, has := range map[string]string{
		"go.mod":                 "module github.com/acme/my-shop/v2\n",
		"cmd/my-shop/main.go":    `"github.com/acme/my-shop/v2/app"`,
		"app/settings.go":        `envPrefix = "MY_SHOP_"`,
		"app/metrics/metrics.go": `Namespace: "my_shop"`,
		"handler/text/en.yaml":   "run my-shop migrate up",
		"docker-compose.yml":     "MY_SHOP_MYSQL_DSN: my_shop:",
		"Dockerfile":             "COPY --from=build /out/my-shop ",

		"README.md":             "`stock new` (test)",
		"handler/table.go":      `"github.com/acme/my-shop/v2/service/order"`,
		"repo/ledger/ledger.go": `"github.com/acme/my-shop/v2/service/order"`,
	} {
		if !strings.Contains(read(name), has) {
			t.Errorf("%s does not say %s", name, has)
		}
	}
	for name, executable := range map[string]bool{".ci/run": true, ".ci/smoke": true, "Makefile": false} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode()&0o111 != 0 != executable {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// What was not chosen is not there, and neither is what no choice has.
func TestWhatIsNotChosenIsNotThere(t *testing.T) {
	t.Parallel()
	all := choice()
	all.Strategies, all.Stores = starter.Strategies(), starter.Stores()
	for name, there := range map[string][2]bool{ // with the least, and with all
		"repo/ledger/step_mysql.go": {true, true},
		"repo/ledger/step_redis.go": {false, true},
		"repo/ledger/write.lua":     {false, true},
		"lock/redislock/cleanup.go": {false, true},
		"lock/zklock/session.go":    {false, true},
		"service/order/merge.go":    {false, false},
		"lab/lab.go":                {false, false},
	} {
		for i, c := range []starter.Choice{choice(), all} {
			if _, read := written(t, c); (read(name) != "") != there[i] {
				t.Errorf("%v %v: %s is there: %v", c.Strategies, c.Stores, name, !there[i])
			}
		}
	}
}

// The record has the choice, and the digest of every file.
func TestRecord(t *testing.T) {
	t.Parallel()
	dir, read := written(t, choice())
	var record struct {
		starter.Choice
		Files map[string]string
	}
	if err := json.Unmarshal([]byte(read(starter.Record)), &record); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(record.Choice, choice()) {
		t.Errorf("%+v", record.Choice)
	}
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, at)
		if err != nil || entry.IsDir() || name == starter.Record {
			return err
		}
		sum := sha256.Sum256([]byte(read(name)))
		if want := hex.EncodeToString(sum[:]); record.Files[name] != want {
			t.Errorf("%s: %s, want %s", name, record.Files[name], want)
		}
		delete(record.Files, name)
		return nil
	})
	if err != nil || len(record.Files) > 0 {
		t.Errorf("%v; files that are not there: %v", err, record.Files)
	}
}

// What the audit of a new service finds is said in both languages, and its catalogues have both.
func TestFindingsOfAnAudit(t *testing.T) {
	t.Parallel()
	dir, _ := written(t, choice())
	if err := words.NewPhrasebook(os.DirFS(filepath.Join(dir, "app")), "text").Check(); err != nil {
		t.Error(err)
	}
	commands := words.NewPhrasebook(os.DirFS(filepath.Join(dir, "cmd", "orders")), "text")
	if err := commands.Check(); err != nil {
		t.Error(err)
	}
	level := commands.Say("audit.level", "received", 5, "available", 4, "reserved", 3, "sold", -2)
	for _, row := range []struct {
		kind, zh string
		with     []any
	}{
		{"other-sku", "第 7 条流水属于 pen", []any{"number", 7, "other", "pen"}},
		{"gap", "第 7 条流水之后是第 9 条", []any{"number", 7, "next", 9}},
		{
			"law", "第 7 条流水之后，入库不等于可卖 + 已预留 + 已售，或其中有负数：入库 5、可卖 4、已预留 3、已售 -2",
			[]any{"number", 7, "level", level},
		},
		{
			"counters", "计数里入库不等于可卖 + 已预留 + 已售，或其中有负数：入库 5、可卖 4、已预留 3、已售 -2",
			[]any{"level", level},
		},
		{"sum", "各条流水合计为入库 5、可卖 4、已预留 3、已售 -2，编号 7", []any{"level", level, "number", 7}},
	} {
		if said := commands.Say("audit."+row.kind, row.with...); said.ZH != row.zh {
			t.Errorf("%s: %q and %q, want %q", row.kind, said.EN, said.ZH, row.zh)
		}
	}
}

// The OpenAPI document has every route of the service and no other, and nothing that is referred to is missing.
func TestTheDocumentIsOfWhatIsServed(t *testing.T) {
	t.Parallel()
	_, read := written(t, choice())
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components map[string]map[string]json.RawMessage
	}
	text := read("handler/openapi.json")
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	var routes, operations []string
	route := regexp.MustCompile(`(?:http\.Method|on\()(\w+), "(/[^"]+)"`)
	parameter := regexp.MustCompile(`:(\w+)`)
	for _, name := range []string{"handler/handler.go", "handler/orders/orders.go"} {
		for _, m := range route.FindAllStringSubmatch(read(name), -1) {
			routes = append(routes, strings.ToUpper(m[1])+" "+parameter.ReplaceAllString(m[2], "{$1}"))
		}
	}
	for path, item := range document.Paths {
		for method := range item {
			if method != "parameters" && method != "servers" {
				operations = append(operations, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(routes)
	slices.Sort(operations)
	if len(routes) < 15 || !slices.Equal(routes, operations) {
		t.Errorf("routes\n%v\noperations\n%v", routes, operations)
	}
	for _, m := range regexp.MustCompile(`"#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(text, -1) {
		if document.Components[m[1]][m[2]] == nil {
			t.Errorf("there is no %s", m[0])
		}
	}
	for _, gone := range []string{
		"segment", "/problems/not_paused", "redis", "PausePoints", `"Sale"`, "/v1/strategies",
	} {
		if strings.Contains(text, gone) {
			t.Errorf("it speaks of %s", gone)
		}
	}
}

package mysqlconn_test

import (
	"bytes"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"example.com/stock/internal/mysqlconn"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for parameters, refused := range map[string]string{
		"":                                  "",
		"charset=utf8mb4":                   "",
		"charset=utf8mb4&parseTime=true":    "",
		"collation=utf8mb4_unicode_ci":      "",
		"collation_connection=utf8mb4_bin":  "",
		"character_set_client='utf8mb4'":    "",
		"charset=gbk":                       "charset",
		"charset=utf8mb4,gbk":               "charset",
		"charset=gbk,utf8mb4":               "charset",
		"parseTime=true&charset=utf8":       "charset",
		"charset=":                          "charset",
		"charset=utf8mb4&charset=big5":      "charset",
		"collation=gb18030_chinese_ci":      "collation",
		"collation=utf8_general_ci":         "collation",
		"character_set_client=gbk":          "character_set_client",
		"CHARACTER_SET_CLIENT='sjis'":       "CHARACTER_SET_CLIENT",
		"character_set_connection=gbk":      "character_set_connection",
		"collation_connection=big5_bin":     "collation_connection",
		"@@session.character_set_client=0x": "@@session.character_set_client",
	} {
		c, err := mysqlconn.Parse("u:p/w?charset=gbk@tcp(db:3306)/stock?" + parameters)
		other, is := errors.AsType[*mysqlconn.CharsetError](err)
		switch {
		case refused == "" && (err != nil || c.Passwd != "p/w?charset=gbk"):
			t.Errorf("%q: %v", parameters, err)
		case refused != "" && (!is || other.Name != refused):
			t.Errorf("%q: %v, want an error about %s", parameters, err, refused)
		case is && strings.Contains(err.Error(), "p/w"):
			t.Errorf("%q: the error quotes the password: %v", parameters, err)
		}
	}
	if _, err := mysqlconn.Parse("nonsense"); err == nil {
		t.Error("nonsense is a DSN")
	}
}

// Whatever the server and the parameters say, a session that can be used has utf8mb4.
func TestNewConnector(t *testing.T) {
	server := servertest.GBK(t)
	proxy, err := wire.Listen(server.Addr, wire.MySQL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	var swallow atomic.Bool // the proxy makes another character set of each that is set
	proxy.Set(wire.Trap{Match: func(message []byte) bool {
		if at := bytes.Index(message, []byte("SET ")); swallow.Load() && at >= 0 {
			copy(message, bytes.ReplaceAll(message, []byte("client = utf8mb4"), []byte("client = gbk    ")))
		}
		return false
	}})
	for _, row := range []struct {
		name, dsn string
		swallow   bool
		fails     string // part of the error; empty: the session works
	}{
		{"no parameter", "", false, ""},
		{"utf8mb4", "?charset=utf8mb4&collation=utf8mb4_unicode_ci", false, ""},
		{"gbk", "?charset=gbk", false, ""},
		{"a variable", "?character_set_results=gbk", false, "gbk for @@character_set_results"},
		{"no backslash", "?interpolateParams=true&sql_mode='NO_BACKSLASH_ESCAPES'", false, "NO_BACKSLASH_ESCAPES"},
		{"no backslash, nothing escaped", "?sql_mode='NO_BACKSLASH_ESCAPES'", false, ""},
		{"the proxy does not pass it on", "", true, "gbk for @@character_set_client"},
	} {
		t.Run(row.name, func(t *testing.T) {
			swallow.Store(row.swallow)
			c, err := mysql.ParseDSN("root@tcp(" + proxy.Addr() + ")/stock" + row.dsn)
			if err != nil {
				t.Fatal(err)
			}
			connector, err := mysqlconn.NewConnector(c)
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			defer db.Close()
			const text = `中' OR 1=1 -- \`
			var got string
			err = db.QueryRow("SELECT ?", text).Scan(&got)
			switch {
			case row.fails == "" && (err != nil || got != text):
				t.Errorf("read %q, %v; want %q", got, err, text)
			case row.fails != "" && (err == nil || !strings.Contains(err.Error(), row.fails)):
				t.Errorf("error %v, want one about %s", err, row.fails)
			}
			if open := db.Stats().OpenConnections; row.fails != "" && open != 0 {
				t.Errorf("%d connections are open after a refusal", open)
			}
		})
	}
}

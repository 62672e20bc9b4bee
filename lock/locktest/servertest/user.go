package servertest

import (
	"testing"

	"github.com/go-sql-driver/mysql"
)

// AsUser returns a DSN with another user and password.
func AsUser(t testing.TB, dsn, user, password string) string {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.User, c.Passwd = user, password
	return c.FormatDSN()
}

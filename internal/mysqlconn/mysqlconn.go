// Package mysqlconn opens connections to MySQL and MariaDB whose character set is known to be utf8mb4.
//
// The driver escapes values for UTF-8. If the session has another character set, the server may read a value
// differently: in GBK a backslash can be the second byte of a character, so a quotation mark behind it ends the value,
// and the rest of the value is SQL. The driver cannot prevent that, because a server may ignore the character set that
// the client asks for when it logs in, and a proxy may drop a SET. So every new connection is set to utf8mb4, and is
// used only if the server then reports utf8mb4.
package mysqlconn

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const charset = "utf8mb4"

// A CharsetError reports a parameter of a DSN that sets another character set than utf8mb4.
type CharsetError struct{ Name, Value string }

func (e *CharsetError) Error() string {
	return fmt.Sprintf("%s=%s: values are escaped for utf8mb4, and another character set could turn them into SQL:"+
		" leave it out, or set charset=utf8mb4", e.Name, e.Value)
}

// Parse is mysql.ParseDSN for a DSN that may not set another character set. Its error is then a CharsetError.
func Parse(dsn string) (*mysql.Config, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	// The driver keeps the value of charset to itself, so it is read here as the driver reads it.
	_, parameters, _ := strings.Cut(dsn[strings.LastIndexByte(dsn, '/')+1:], "?")
	for parameter := range strings.SplitSeq(parameters, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		for one := range strings.SplitSeq(value, ",") {
			if name == "charset" && one != charset {
				return nil, &CharsetError{name, value}
			}
		}
	}
	if c.Collation != "" && !isUTF8(c.Collation) {
		return nil, &CharsetError{"collation", c.Collation}
	}
	for name, value := range c.Params {
		if isVariable(name) && !isUTF8(value) {
			return nil, &CharsetError{name, value}
		}
	}
	return c, nil
}

// isVariable reports whether a system variable is about the character set of the session.
func isVariable(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "character_set") || strings.Contains(name, "collation")
}

// isUTF8 reports whether text names utf8mb4 or a collation of it.
func isUTF8(text string) bool {
	text = strings.Trim(text, `'"`)
	return text == charset || strings.HasPrefix(text, charset+"_")
}

// NewConnector is mysql.NewConnector, but each new connection is set to utf8mb4, whatever the default of the server is,
// and is closed with an error if the server reports another character set. That costs a round trip for each connection.
func NewConnector(c *mysql.Config) (driver.Connector, error) {
	c = c.Clone()
	params := map[string]string{
		"character_set_client":  charset,
		"character_set_results": charset,
		// It sets character_set_connection, too. This collation is the driver's default.
		"collation_connection": cmp.Or(c.Collation, charset+"_general_ci"),
	}
	maps.Copy(params, c.Params)
	c.Params = params
	plain, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return connector{plain, c.InterpolateParams}, nil
}

type connector struct {
	driver.Connector
	interpolates bool
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.verify(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// verify returns an error unless the session reads values as the driver writes them.
func (c connector) verify(ctx context.Context, conn driver.Conn) error {
	const query = "SELECT @@character_set_client, @@character_set_connection, @@character_set_results," +
		" @@collation_connection, @@sql_mode"
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, query, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	values := make([]driver.Value, 5)
	if err := rows.Next(values); err != nil {
		return err
	}
	for i, value := range values[:4] {
		if text := fmt.Sprintf("%s", value); !isUTF8(text) {
			return fmt.Errorf("mysql: the server reports %s for %s of a new session, although it was set to %s",
				text, rows.Columns()[i], charset)
		}
	}
	// The driver escapes a quotation mark as the server says that it must, but an old proxy may not pass that on.
	if mode := fmt.Sprintf("%s", values[4]); c.interpolates && strings.Contains(mode, "NO_BACKSLASH_ESCAPES") {
		return fmt.Errorf("mysql: sql_mode of a new session is %s, and values are escaped with backslashes", mode)
	}
	return nil
}

package repo

import (
	"cmp"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"example.com/stock/internal/mysqlconn"
)

// Pool limits the connections to MySQL. The zero value means the defaults.
type Pool struct {
	// Open is the largest number of connections; 0: 40. Three instances with 40 each stay below the server's default
	// max_connections of 151. A request that finds no free connection waits for one until its ctx ends;
	// [MySQL.Behind] puts a bounded queue in front.
	//
	// A lock that keeps a connection while it is held or waited for needs its own pool. In a shared pool the waiters
	// can take every connection. The holder, which needs one more connection to write, would then wait for ever.
	Open int
	// Idle is the number of connections that are kept open while they are unused; 0: all.
	Idle int
	// TLS is for connections over TLS; nil: as dsn says.
	TLS *tls.Config
	// New makes the pool of connections, around each of which it may put something; nil: sql.OpenDB.
	New func(driver.Connector) *sql.DB
}

// lifetime is how long a connection is used. It must be shorter than the server's wait_timeout and the limit of any
// proxy in between. It also limits how long we use a server that is no longer the master.
const lifetime = 3 * time.Minute

// OpenMySQL returns a handle for the MySQL or MariaDB that dsn names. It does not connect; the first operation
// connects. It returns an error only if dsn is wrong. To close the handle, call Close on the result of its DB method.
//
// OpenMySQL overrides these settings of dsn, because the stores rely on them:
//
//   - parseTime, loc=UTC: created_at is a time.Time in UTC, whatever the time zones of server and client are.
//   - interpolateParams: the driver puts the values into the statement, escaped. Without it every statement is three
//     packets (prepare, execute, close) and two round trips. gorm's PrepareStmt would also save the parsing, but our
//     transactions, each on one connection, cannot use its prepared statements.
//   - multiStatements: a sale is two packets of several statements, see mysql_transaction.go. It is safe because all
//     SQL is constant, only interpolateParams puts values in, and every connection is verified to read them as the
//     driver escapes them (package mysqlconn): see docs/adr/0011-a-sale-is-two-packets.md.
//   - clientFoundRows=false: "rows affected" counts changed rows. All our UPDATEs increase the version and so change
//     every row that they match, but nothing should depend on this.
//   - autocommit, isolation level (REPEATABLE READ), sql_mode (strict), time zone (UTC), completion_type,
//     unique_checks, sql_select_limit and sql_safe_updates of every connection. With autocommit=0, for example, a
//     pooled connection would always read the snapshot of its first read.
//
// It sets these only if dsn does not: innodb_lock_wait_timeout (50 s), wait_timeout (8 h), and timeout, to connect (1
// s). The variables cost no additional round trip on a new connection; reading the character set back costs one. There
// is no readTimeout, because a statement may wait for a row lock; the ctx of each operation bounds it, COMMIT included.
//
// The connection's character set is utf8mb4, and a dsn that sets another one is refused; the columns have their own. No
// operation relies on a snapshot taken before a lock. READ UNCOMMITTED would break the look-up of orders, because an
// order that was found could disappear.
//
// gorm's own transaction around each statement, which costs two more round trips, is off. gorm's log is off, too,
// because errors are returned.
func OpenMySQL(dsn string, p Pool) (*gorm.DB, error) {
	c, err := mysqlconn.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN, such as user:password@tcp(host:3306)/stock: %w", err)
	}
	c.ParseTime = true
	c.Loc = time.UTC
	c.InterpolateParams = true
	c.MultiStatements = true
	c.ClientFoundRows = false
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	setSessionVariables(c)
	c.Logger = &mysql.NopLogger{}
	if p.TLS != nil {
		c.TLS = p.TLS
	}
	connector, err := mysqlconn.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: %w", err)
	}

	open := p.New
	if open == nil {
		open = sql.OpenDB
	}
	pool := open(connector)
	most := cmp.Or(p.Open, 40)
	pool.SetMaxOpenConns(most)
	// With the default of 2 idle connections, every burst of 40 requests would open and close 38.
	pool.SetMaxIdleConns(cmp.Or(p.Idle, most))
	pool.SetConnMaxLifetime(lifetime)

	db, err := gorm.Open(gormmysql.New(gormmysql.Config{
		Conn:                      pool,
		SkipInitializeWithVersion: true, // otherwise Open would connect
	}), &gorm.Config{
		DisableAutomaticPing:   true,
		SkipDefaultTransaction: true,
		Logger:                 logger.Discard,
	})
	if err != nil {
		_ = pool.Close()
		return nil, fmt.Errorf("open mysql: %w", err)
	}
	return db, nil
}

// setSessionVariables sets the session variables of every connection of c. The driver sends them as one SET.
func setSessionVariables(c *mysql.Config) {
	params := make(map[string]string, len(c.Params)+12)
	maps.Copy(params, map[string]string{"innodb_lock_wait_timeout": "50", "wait_timeout": "28800"})
	for name, value := range c.Params {
		params[strings.ToLower(name)] = value
	}
	// MySQL and MariaDB have different names for the isolation level, so a parameter of the driver would be unknown to
	// one of them. MySQL executes the first of these two comments and skips the second; MariaDB does the reverse.
	delete(params, "tx_isolation")
	delete(params, "transaction_isolation")
	const isolation = "/*!50720 , transaction_isolation = 'REPEATABLE-READ' */" +
		"/*M!100000 , tx_isolation = 'REPEATABLE-READ' */"
	maps.Copy(params, map[string]string{
		"autocommit": "1 " + isolation,
		"sql_mode":   "'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"time_zone":  "'+00:00'",
		// CHAIN would begin a transaction with each COMMIT, and RELEASE would close the connection.
		"completion_type": "0",
		// With unique_checks=0 InnoDB may accept an order whose id already exists.
		"unique_checks":    "1",
		"sql_select_limit": "18446744073709551615",
		"sql_safe_updates": "0",
	})
	c.Params = params
}

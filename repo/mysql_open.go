package repo

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Pool bounds the connections to MySQL. The zero value is the default.
type Pool struct {
	// Open is the largest number of connections; 0: 40. Three instances with 40 each stay below the server's default
	// max_connections of 151. A request that finds none free waits for one until its ctx ends: see [MySQL.Behind] for a
	// queue that has bounds.
	//
	// A lock that keeps a connection while it is held or waited for needs a pool of its own: in a common pool the
	// waiters can take every connection, and the holder, which needs one more to write, waits for them for ever.
	Open int
	// Idle is the number of connections that are kept open when nothing uses them; 0: all.
	Idle int
	// Lifetime is how long a connection is used; 0: 3 minutes. It must be shorter than the limit of any proxy on the
	// way and the server's wait_timeout. It bounds how long we talk to a server that is no longer the master.
	Lifetime time.Duration
}

// OpenMySQL prepares to use the MySQL or MariaDB that dsn names. It does not connect: the first operation does. An
// error is about dsn only. The caller closes the result: its DB() has Close.
//
// These settings of a DSN are set here, because the stores rely on them:
//
//   - parseTime, loc=UTC: created_at is a time.Time, in UTC whatever the zone of server and client.
//   - interpolateParams: the client puts values into the statement, escaped. Without it every statement is three
//     packets (prepare, execute, close) and two round trips. gorm's PrepareStmt would save the parsing as well, but our
//     transactions, on one connection, cannot use its statements; BenchmarkPessimistic compares.
//   - multiStatements: a sale is two packets of several statements, see mysql_transaction.go. All SQL is constant,
//     and values are put in by interpolateParams alone: docs/adr/0019-a-sale-is-two-packets.md says why that is safe.
//   - clientFoundRows=false: "rows affected" counts changed rows. All our UPDATEs add to the version, so every matched
//     row is changed; the setting is here so that nothing depends on that.
//   - autocommit, isolation level (REPEATABLE READ), sql_mode (strict), time zone (UTC), completion_type,
//     unique_checks, sql_select_limit and sql_safe_updates of every connection, whatever the server's defaults and what
//     dsn says: with autocommit=0, say, a pooled connection would read the stock as it was when it read first.
//     innodb_lock_wait_timeout (50 s) and wait_timeout (8 h) are as usual unless dsn says otherwise. They are sent with
//     what a new connection sends anyway: one round trip.
//   - timeout=1s, if dsn has none: to connect. There is no readTimeout, because a statement may wait for a row lock;
//     the ctx of each operation bounds it, COMMIT included.
//
// The connection's character set is the driver's default, utf8mb4; the columns have their own. No operation relies on a
// snapshot taken before a lock. READ UNCOMMITTED would break the look-up of orders: an order that was found must not
// disappear.
//
// gorm's own transaction around each statement (two more round trips) is off. So is its log: errors are returned.
func OpenMySQL(dsn string, p Pool) (*gorm.DB, error) {
	c, err := mysql.ParseDSN(dsn)
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
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: %w", err)
	}

	pool := sql.OpenDB(connector)
	open := cmp.Or(p.Open, 40)
	pool.SetMaxOpenConns(open)
	// As many idle as open: with the default of 2 a burst of 40 would connect and close 38 times over.
	pool.SetMaxIdleConns(cmp.Or(p.Idle, open))
	pool.SetConnMaxLifetime(cmp.Or(p.Lifetime, 3*time.Minute))

	db, err := gorm.Open(gormmysql.New(gormmysql.Config{
		Conn:                      pool,
		SkipInitializeWithVersion: true, // it would connect now
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
	// The level has another name in each: MySQL knows the first and skips the second, MariaDB the reverse. As one of
	// the driver's parameters it would be unknown to one of them.
	delete(params, "tx_isolation")
	delete(params, "transaction_isolation")
	const isolation = "/*!50720 , transaction_isolation = 'REPEATABLE-READ' */" +
		"/*M!100000 , tx_isolation = 'REPEATABLE-READ' */"
	maps.Copy(params, map[string]string{
		"autocommit": "1 " + isolation,
		"sql_mode":   "'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"time_zone":  "'+00:00'",
		// CHAIN would begin a transaction with each COMMIT, RELEASE end the connection.
		"completion_type": "0",
		// 0 lets InnoDB take an order whose id is there already.
		"unique_checks":    "1",
		"sql_select_limit": "18446744073709551615",
		"sql_safe_updates": "0",
	})
	c.Params = params
}

package mysqllock

import (
	"fmt"

	"example.com/stock/lock/driver"
)

// Schema returns the statements that create the tables of the locks of this package, unless they exist. In this project
// "stock migrate up" creates them.
//
// Nothing deletes rows: a key that was used once keeps its last fence, in some 100 bytes. If new keys come every day,
// delete the rows whose fence, a time in microseconds, is older than any hold. The next fence of such a key is the time
// of the server's clock, and so larger:
//
//	DELETE FROM locks WHERE fence < (UNIX_TIMESTAMP() - 172800) * 1000000 AND expires_at < UTC_TIMESTAMP()
//	DELETE FROM lock_fences WHERE fence < (UNIX_TIMESTAMP() - 172800) * 1000000
//
// A row of lock_rows has no fence while nobody holds its key. Empty that table while no lock is used.
func Schema() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS locks (
  name       VARBINARY(255)  NOT NULL,
  token      VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  who        VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
  expires_at DATETIME(6)     NOT NULL,
  fence      BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB`,
		`CREATE TABLE IF NOT EXISTS lock_rows (
  name   VARBINARY(255)  NOT NULL,
  thread BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (name)
) ENGINE = InnoDB`,
		`CREATE TABLE IF NOT EXISTS lock_fences (
  name   VARBINARY(255)  NOT NULL,
  fence  BIGINT UNSIGNED NOT NULL,
  who    VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
  thread BIGINT UNSIGNED NOT NULL DEFAULT 0,
  held   BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (name)
) ENGINE = InnoDB`,
	}
}

// A schemaError reports that a table is missing or too old. The server is up, so the text does not call it down, but
// the error matches lock.ErrDown: no caller can get a lock before an operator has acted.
type schemaError struct {
	down *driver.DownError
	err  error
}

func (e *schemaError) Error() string {
	return fmt.Sprintf("the tables of the lock are missing or too old: execute the statements of mysqllock.Schema"+
		" (\"stock migrate up\" does it): %v", e.err)
}

func (e *schemaError) Unwrap() []error { return []error{e.down, e.err} }

-- The rows that mysql-for-update locks. It does not lock rows of stock, because a holder that locks such a row on one
-- connection and sells on another would wait for itself. The rows have no data and are never removed.

-- +goose Up
CREATE TABLE IF NOT EXISTS lock_rows (
  name VARBINARY(255) NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS lock_rows;

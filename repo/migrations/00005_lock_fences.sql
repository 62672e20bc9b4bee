-- The last fence of each key of mysql-for-update and mysql-get-lock. It is a table of its own, because it is counted up
-- while the row in lock_rows is locked, and must not be rolled back with that row.

-- +goose Up
CREATE TABLE IF NOT EXISTS lock_fences (
  name  VARBINARY(255)  NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS lock_fences;

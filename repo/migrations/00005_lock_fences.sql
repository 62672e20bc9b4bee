-- The last fence of each key of mysql-for-update and mysql-get-lock. It is not a column of lock_rows, because it must
-- not be rolled back with the transaction that locks the row there.

-- +goose Up
CREATE TABLE IF NOT EXISTS lock_fences (
  name  VARBINARY(255)  NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS lock_fences;

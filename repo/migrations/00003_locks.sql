-- The lock table of mysql-table, with a row for every key that was ever locked.

-- +goose Up
CREATE TABLE IF NOT EXISTS locks (
  -- Binary, because keys are any bytes, and keys that differ only in case or in trailing blanks are different.
  name       VARBINARY(255)  NOT NULL,
  -- A new one for each acquisition, so that two holders in one process differ. Empty: free.
  token      VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  who        VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
  -- UTC, by this server's clock. From then on another holder may take the row.
  expires_at DATETIME(6)     NOT NULL,
  fence      BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS locks;

-- The lock table of mysql-table: a row for every key that was ever locked.

-- +goose Up
CREATE TABLE IF NOT EXISTS locks (
  -- Binary: keys are any bytes, and neither case nor trailing blanks may make two of them one.
  name       VARBINARY(255)  NOT NULL,
  -- Of one acquisition, not of a process: two holders on one host are two. Empty: free.
  token      VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  who        VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
  -- UTC, by this server's clock. The row may be taken from then on.
  expires_at DATETIME(6)     NOT NULL,
  fence      BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS locks;

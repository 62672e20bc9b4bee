-- Runs on MariaDB 10.11 and on MySQL 8. One table per file: DDL commits by itself, so a file with two tables could stop
-- half way. IF NOT EXISTS is for a crash between this statement and the record that it was done: the next run may
-- repeat it.

-- +goose Up
CREATE TABLE IF NOT EXISTS stock (
  -- ascii_bin: the case of a SKU matters, and a key of 64 characters is 64 bytes.
  sku      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  quantity BIGINT          NOT NULL,
  initial  BIGINT          NOT NULL,
  -- Counted up in the transaction that inserts the order, so that a read costs one row and not all orders of the epoch.
  sold     BIGINT          NOT NULL,
  version  BIGINT UNSIGNED NOT NULL,
  epoch    BIGINT UNSIGNED NOT NULL,
  fence    BIGINT UNSIGNED NOT NULL,
  guard    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (sku),
  CONSTRAINT stock_quantity CHECK (quantity >= 0)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS stock;

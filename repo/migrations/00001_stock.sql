-- Migrations run on MariaDB 10.11 and on MySQL 8. Each file has one table, because DDL commits by itself, and a file
-- with two could stop half way. After a crash between the statement and its record the next run repeats the statement,
-- hence IF NOT EXISTS.

-- +goose Up
CREATE TABLE IF NOT EXISTS stock (
  -- ascii_bin, because the case of a SKU matters, and so that 64 characters are 64 bytes of a key.
  sku      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  quantity BIGINT          NOT NULL,
  initial  BIGINT          NOT NULL,
  -- Increased in the transaction that inserts the order, so that a read needs one row and not all orders of the epoch.
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

-- +goose Up
CREATE TABLE IF NOT EXISTS orders (
  -- Increases in the order of the sales, because the row of the stock is locked while the number is drawn.
  seq           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  id            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sku           VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  epoch         BIGINT UNSIGNED NOT NULL,
  version       BIGINT UNSIGNED NOT NULL,
  quantity      BIGINT          NOT NULL,
  -- "read" is a reserved word.
  quantity_read BIGINT          NOT NULL,
  quantity_left BIGINT          NOT NULL,
  strategy      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  instance      VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
  request_id    VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
  fence         BIGINT UNSIGNED NOT NULL,
  created_at    DATETIME(6)     NOT NULL,
  PRIMARY KEY (seq),
  UNIQUE KEY orders_id (id),
  -- For pages, which are sorted by seq. quantity is in the key so that the audit, SUM(quantity) by sku and epoch, reads
  -- only the index.
  KEY orders_page (sku, epoch, seq, quantity)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS orders;

-- The ledger: every change of stock, numbered for each SKU without a gap. Rows are never changed. They are also the
-- events of the outbox: see deliveries.

-- +goose Up
CREATE TABLE IF NOT EXISTS movements (
  sku       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number    BIGINT UNSIGNED NOT NULL,
  kind      VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  received  BIGINT       NOT NULL,
  available BIGINT       NOT NULL,
  reserved  BIGINT       NOT NULL,
  sold      BIGINT       NOT NULL,
  ref       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  customer  VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason    VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
  at        DATETIME(6)  NOT NULL,
  PRIMARY KEY (sku, number),
  CONSTRAINT movements_law CHECK (received = available + reserved + sold)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS movements;

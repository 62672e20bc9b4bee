-- The orders of the ledger, of one or more SKUs. The table orders has those of the demonstration.

-- +goose Up
CREATE TABLE IF NOT EXISTS customer_orders (
  id             VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  customer       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- The lines, as JSON, because they never change and are always read together. "lines" is a reserved word.
  cart           TEXT        CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  state          VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reservation_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  late           TINYINT     NOT NULL,
  created_at     DATETIME(6) NOT NULL,
  canceled_at    DATETIME(6) NULL,
  PRIMARY KEY (id),
  -- For pages of a customer, the newest first.
  KEY customer_orders_page (customer, created_at, id)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS customer_orders;

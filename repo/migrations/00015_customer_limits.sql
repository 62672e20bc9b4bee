-- The units of a SKU that a customer has, reserved and sold. Rows are written while the row of the stock is locked.

-- +goose Up
CREATE TABLE IF NOT EXISTS customer_limits (
  sku      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  customer VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  taken    BIGINT      NOT NULL,
  PRIMARY KEY (sku, customer)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS customer_limits;

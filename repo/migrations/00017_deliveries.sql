-- The number of the last delivered movement of a SKU, and the largest fence of a relay that has recorded it. These are
-- not columns of stock, so that relay and sales do not wait for each other.

-- +goose Up
CREATE TABLE IF NOT EXISTS deliveries (
  sku    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number BIGINT UNSIGNED NOT NULL,
  fence  BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (sku)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS deliveries;

-- How far the movements of a SKU were delivered, and the largest fence of a relay that has said so. It is no column of
-- stock: a relay must not wait for sales, nor they for it.

-- +goose Up
CREATE TABLE IF NOT EXISTS deliveries (
  sku    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number BIGINT UNSIGNED NOT NULL,
  fence  BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (sku)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS deliveries;

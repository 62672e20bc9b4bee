-- The segments of SKUs that are sold in segments. Units move between the segments and the row in stock, which then has
-- only the reserve.

-- +goose Up
CREATE TABLE IF NOT EXISTS stock_segments (
  sku      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  segment  INT UNSIGNED    NOT NULL,
  quantity BIGINT          NOT NULL,
  sold     BIGINT          NOT NULL,
  version  BIGINT UNSIGNED NOT NULL,
  -- Epoch and guard repeat those of the stock, so that a sale from a segment need not read the row of the stock, for
  -- which all other sales would wait.
  epoch    BIGINT UNSIGNED NOT NULL,
  fence    BIGINT UNSIGNED NOT NULL,
  guard    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (sku, segment),
  CONSTRAINT stock_segments_quantity CHECK (quantity >= 0)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS stock_segments;

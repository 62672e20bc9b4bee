-- The events that the relay has parked until a person decides. A SKU has at most one, because its later events wait.

-- +goose Up
CREATE TABLE IF NOT EXISTS dead_letters (
  sku       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number    BIGINT UNSIGNED NOT NULL,
  attempts  INT UNSIGNED    NOT NULL,
  -- The error of the receiver or its client: bytes of any encoding.
  reason    VARBINARY(500)  NOT NULL,
  parked_at DATETIME(6)     NOT NULL,
  verdict   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- Increases with every change, so that MySQL counts a row as changed even if its other columns stay the same.
  version   BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (sku)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS dead_letters;

-- The events that the relay has parked until a person decides: one for each SKU at most, because those behind it wait.

-- +goose Up
CREATE TABLE IF NOT EXISTS dead_letters (
  sku       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number    BIGINT UNSIGNED NOT NULL,
  attempts  INT UNSIGNED    NOT NULL,
  -- What the receiver or its client said: bytes, of any alphabet.
  reason    VARBINARY(500)  NOT NULL,
  parked_at DATETIME(6)     NOT NULL,
  verdict   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- Grows with every change, so that a change to what is there already counts as one.
  version   BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (sku)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS dead_letters;

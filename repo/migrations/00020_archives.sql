-- The parts of the ledger that were moved into an archive: see order.Archivable.

-- +goose Up
CREATE TABLE IF NOT EXISTS archives (
  part         BIGINT UNSIGNED NOT NULL,
  digest       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  previous     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  before_at    DATETIME(6)  NOT NULL,
  movements    INT UNSIGNED NOT NULL,
  orders       INT UNSIGNED NOT NULL,
  reservations INT UNSIGNED NOT NULL,
  archived_at  DATETIME(6)  NOT NULL,
  PRIMARY KEY (part)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS archives;

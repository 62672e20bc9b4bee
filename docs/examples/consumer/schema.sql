-- The events that have had their effect, by their ids: a ledger that was restored from an older copy gives a number a
-- second time, to another movement. Rows older than any repeat can be may be removed: a relay repeats what it had
-- not recorded, and a person may have a parked event sent again after days.
CREATE TABLE IF NOT EXISTS inbox (
  id     VARCHAR(120) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sku    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (id),
  KEY (sku, number)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS sold (
  sku   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  units BIGINT NOT NULL,
  PRIMARY KEY (sku)
) ENGINE = InnoDB;

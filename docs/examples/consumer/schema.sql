-- The number of the last event of each SKU that has had its effect.
CREATE TABLE IF NOT EXISTS inbox (
  sku    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number BIGINT NOT NULL,
  PRIMARY KEY (sku)
) ENGINE = InnoDB;

-- The last entry of a stream that was read.
CREATE TABLE IF NOT EXISTS places (
  stream VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  entry  VARCHAR(50) CHARACTER SET ascii NOT NULL,
  PRIMARY KEY (stream)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS sold (
  sku   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  units BIGINT NOT NULL,
  PRIMARY KEY (sku)
) ENGINE = InnoDB;

-- The origin of this database (name ''), the SKUs that were seeded with it ('seeded:' and the SKU), and the remembered
-- origins of other stores ('store:' and a digest of the address). See docs/adr/0007-a-store-that-lost-its-data.md.

-- +goose Up
CREATE TABLE IF NOT EXISTS origins (
  name       VARBINARY(255)  NOT NULL,
  id         VARBINARY(64)   NOT NULL,
  -- An origin that a person made has the time in seconds, so that it is larger than a generation that was forgotten.
  generation BIGINT UNSIGNED NOT NULL,
  lost       TINYINT         NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS origins;

-- The origin of this database (name ''), which SKUs were seeded with it ('seeded:' and the SKU), and what is remembered
-- of other stores ('store:' and a digest of the place). See docs/adr/0013-a-store-that-lost-its-data.md.

-- +goose Up
CREATE TABLE IF NOT EXISTS origins (
  name       VARBINARY(255)  NOT NULL,
  id         VARBINARY(64)   NOT NULL,
  -- Of the origin that a person made it is the time in seconds, so that it is later than what was forgotten.
  generation BIGINT UNSIGNED NOT NULL,
  lost       TINYINT         NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS origins;

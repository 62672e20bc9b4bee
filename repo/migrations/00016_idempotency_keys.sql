-- +goose Up
CREATE TABLE IF NOT EXISTS idempotency_keys (
  -- Digests: see order.Key.
  id          VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  fingerprint VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reply       MEDIUMBLOB  NOT NULL,
  created_at  DATETIME(6) NOT NULL,
  PRIMARY KEY (id),
  -- For the removal of old keys, the oldest first.
  KEY idempotency_keys_created (created_at)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS idempotency_keys;

-- +goose Up
CREATE TABLE IF NOT EXISTS reservations (
  id         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  customer   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- The lines, as JSON. See customer_orders.
  cart       TEXT        CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  order_id   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  created_at DATETIME(6) NOT NULL,
  ended_at   DATETIME(6) NULL,
  PRIMARY KEY (id),
  -- For held reservations that have expired, the earliest first.
  KEY reservations_due (state, expires_at, id)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS reservations;

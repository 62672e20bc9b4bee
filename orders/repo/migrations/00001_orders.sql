-- +goose Up
CREATE TABLE stocks (
  sku          VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  received     BIGINT NOT NULL,
  available    BIGINT NOT NULL,
  reserved     BIGINT NOT NULL,
  sold         BIGINT NOT NULL,
  number       BIGINT NOT NULL,
  per_customer BIGINT NOT NULL,
  CONSTRAINT stocks_law CHECK (received = available + reserved + sold),
  CONSTRAINT stocks_not_negative CHECK (available >= 0 AND reserved >= 0 AND sold >= 0)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE movements (
  sku       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number    BIGINT NOT NULL,
  kind      VARCHAR(16) NOT NULL,
  received  BIGINT NOT NULL,
  available BIGINT NOT NULL,
  reserved  BIGINT NOT NULL,
  sold      BIGINT NOT NULL,
  ref       VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  customer  VARCHAR(255) NOT NULL,
  reason    VARCHAR(200) NOT NULL,
  at        DATETIME(6) NOT NULL,
  PRIMARY KEY (sku, number),
  KEY movements_of_customer (sku, customer, reserved, sold), -- what a customer has of a SKU with a limit
  CONSTRAINT movements_law CHECK (received = available + reserved + sold)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE orders (
  id             CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  customer       VARCHAR(255) NOT NULL,
  state          VARCHAR(16) NOT NULL,
  reservation_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  late           BOOLEAN NOT NULL,
  created_at     DATETIME(6) NOT NULL,
  canceled_at    DATETIME(6),
  KEY orders_of_customer (customer, created_at, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE reservations (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  customer    VARCHAR(255) NOT NULL,
  state       VARCHAR(16) NOT NULL,
  order_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at  DATETIME(6) NOT NULL,
  expires_at  DATETIME(6) NOT NULL,
  extended_at DATETIME(6),
  ended_at    DATETIME(6),
  KEY reservations_due (state, expires_at, id),
  KEY reservations_of_customer (customer, state)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The lines of an order or of a reservation.
CREATE TABLE cart_lines (
  owner_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sku      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  quantity BIGINT NOT NULL,
  PRIMARY KEY (owner_id, sku)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- A row for each customer who has ever reserved. It is locked while his open reservations are counted.
CREATE TABLE customers (
  name VARCHAR(255) NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE idempotency_keys (
  id          BINARY(32) NOT NULL PRIMARY KEY,
  fingerprint BINARY(32) NOT NULL,
  reply       MEDIUMBLOB NOT NULL,
  created_at  DATETIME(6) NOT NULL,
  KEY idempotency_keys_age (created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Events that are not sent yet. An event of a SKU is sent after the one with the number before it.
CREATE TABLE outbox (
  id       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sku      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  number   BIGINT NOT NULL,
  body     MEDIUMBLOB NOT NULL,
  due      DATETIME(6), -- NULL: it is parked, and waits for a person
  refusals INT NOT NULL,
  reason   VARCHAR(255) NOT NULL, -- of the last attempt that failed
  UNIQUE KEY outbox_order (sku, number),
  KEY outbox_due (due)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- One row. It is written before events are sent: see Store.Deliver.
CREATE TABLE outbox_barrier (
  id INT NOT NULL PRIMARY KEY,
  at DATETIME(6) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE outbox_barrier;
DROP TABLE outbox;
DROP TABLE idempotency_keys;
DROP TABLE customers;
DROP TABLE cart_lines;
DROP TABLE reservations;
DROP TABLE orders;
DROP TABLE movements;
DROP TABLE stocks;

-- The idempotency key with which an order was written, and the fingerprint of its request; NULL: none. They are kept as
-- long as the order. The unique index keeps two requests with the same key from making two orders. After a crash this
-- may run twice, and only MariaDB has ADD COLUMN IF NOT EXISTS.

-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) = 1, 'DO 0', CONCAT(
    'ALTER TABLE orders ADD COLUMN idempotency_key CHAR(43) CHARACTER SET ascii COLLATE ascii_bin NULL,',
    ' ADD COLUMN fingerprint CHAR(43) CHARACTER SET ascii COLLATE ascii_bin NULL,',
    ' ADD UNIQUE KEY orders_idempotency_key (idempotency_key)'))
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'orders' AND column_name = 'idempotency_key');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0', CONCAT(
    'ALTER TABLE orders DROP KEY orders_idempotency_key, DROP COLUMN idempotency_key,',
    ' DROP COLUMN fingerprint'))
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'orders' AND column_name = 'idempotency_key');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

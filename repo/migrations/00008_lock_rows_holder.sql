-- The holder of the row, for inspection. It is written in the transaction that holds the lock, so only READ UNCOMMITTED
-- sees it, and it disappears with the lock. Only MariaDB has IF NOT EXISTS for columns. The statement waits until the
-- present holders have released their locks.

-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) = 1, 'DO 0', CONCAT(
    'ALTER TABLE lock_rows ADD COLUMN who VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '''',',
    ' ADD COLUMN fence BIGINT UNSIGNED NOT NULL DEFAULT 0, ADD COLUMN thread BIGINT UNSIGNED NOT NULL DEFAULT 0'))
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'lock_rows' AND column_name = 'thread');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0',
    'ALTER TABLE lock_rows DROP COLUMN who, DROP COLUMN fence, DROP COLUMN thread')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'lock_rows' AND column_name = 'thread');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

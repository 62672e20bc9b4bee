-- Who holds the row, for those who ask: written in the transaction that holds, so that it is only ever seen by a read of what is not committed,
-- and gone with the lock. IF NOT EXISTS for columns is MariaDB's alone. The statement waits for the holders that there are now.

-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) = 1, 'DO 0', 'ALTER TABLE lock_rows ADD COLUMN who VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '''', ADD COLUMN fence BIGINT UNSIGNED NOT NULL DEFAULT 0, ADD COLUMN thread BIGINT UNSIGNED NOT NULL DEFAULT 0')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'lock_rows' AND column_name = 'thread');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE lock_rows DROP COLUMN who, DROP COLUMN fence, DROP COLUMN thread')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'lock_rows' AND column_name = 'thread');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

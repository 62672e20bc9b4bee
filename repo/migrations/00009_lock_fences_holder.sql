-- The last holder that has drawn a fence under mysql-get-lock: its name, its connection and its fence. The server can
-- tell whether the connection still holds the key. The column fence may be larger, because an eviction draws one, too.

-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) = 1, 'DO 0', CONCAT(
    'ALTER TABLE lock_fences ADD COLUMN who VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT '''',',
    ' ADD COLUMN thread BIGINT UNSIGNED NOT NULL DEFAULT 0, ADD COLUMN held BIGINT UNSIGNED NOT NULL DEFAULT 0'))
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'lock_fences' AND column_name = 'thread');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0',
    'ALTER TABLE lock_fences DROP COLUMN who, DROP COLUMN thread, DROP COLUMN held')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'lock_fences' AND column_name = 'thread');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

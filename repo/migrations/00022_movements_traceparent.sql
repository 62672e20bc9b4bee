-- The place in a trace of the request that made a movement, so that the relay's delivery can link to it. NULL: the
-- request was not sampled, or an older instance made the movement. After a crash this may run twice, and only MariaDB
-- has ADD COLUMN IF NOT EXISTS.

-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) = 1, 'DO 0',
    'ALTER TABLE movements ADD COLUMN traceparent CHAR(55) CHARACTER SET ascii COLLATE ascii_bin NULL')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'movements' AND column_name = 'traceparent');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE movements DROP COLUMN traceparent')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'movements' AND column_name = 'traceparent');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

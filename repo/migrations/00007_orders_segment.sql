-- The segment from which an order was sold; 0: none. After a crash this may run twice, and only MariaDB has ADD COLUMN
-- IF NOT EXISTS.

-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) = 1, 'DO 0', 'ALTER TABLE orders ADD COLUMN segment INT UNSIGNED NOT NULL DEFAULT 0')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'orders' AND column_name = 'segment');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE orders DROP COLUMN segment')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'orders' AND column_name = 'segment');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

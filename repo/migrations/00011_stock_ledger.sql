-- What a ledger of orders counts besides quantity and sold: see order.Ledger. The law is
--
--   initial + adjusted = quantity + reserved + sold
--
-- Neither side is computed from the other: only deliveries and losses change the left side, and a sale changes only the
-- right side. The server refuses a row that breaks the law if a ledger guards it. Other rows may break it, because the
-- strategies of the demonstration may lose updates, and units in segments are in other rows. After a crash this may run
-- twice, and only MariaDB has ADD COLUMN IF NOT EXISTS.

-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) = 1, 'DO 0', CONCAT(
    'ALTER TABLE stock ADD COLUMN reserved BIGINT NOT NULL DEFAULT 0,',
    ' ADD COLUMN adjusted BIGINT NOT NULL DEFAULT 0, ADD COLUMN number BIGINT UNSIGNED NOT NULL DEFAULT 0,',
    ' ADD COLUMN per_customer BIGINT NOT NULL DEFAULT 0,',
    ' ADD CONSTRAINT stock_reserved CHECK (reserved >= 0),',
    ' ADD CONSTRAINT stock_law CHECK (guard <> ''orders''',
    ' OR (sold >= 0 AND initial + adjusted = quantity + reserved + sold))'))
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'stock' AND column_name = 'per_customer');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0', CONCAT(
    'ALTER TABLE stock DROP CONSTRAINT stock_law, DROP CONSTRAINT stock_reserved,',
    ' DROP COLUMN reserved, DROP COLUMN adjusted, DROP COLUMN number, DROP COLUMN per_customer'))
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'stock' AND column_name = 'per_customer');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

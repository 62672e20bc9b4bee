-- What customers hold: the units of a reservation, and when it was extended last. The index counts the open
-- reservations of a customer and their units. An older instance writes neither column, so units are NULL for its
-- reservations. After a crash this may run twice, and only MariaDB has ADD COLUMN IF NOT EXISTS.

-- +goose Up
SET @ddl = (SELECT IF(COUNT(*) = 1, 'DO 0', CONCAT(
    'ALTER TABLE reservations ADD COLUMN units BIGINT NULL, ADD COLUMN extended_at DATETIME(6) NULL,',
    ' ADD KEY reservations_open (state, customer, units)'))
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'reservations' AND column_name = 'units');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- A step that reserves locks the row of its customer, because steps about different SKUs lock no row in common. All
-- rows exist from the start, and customers share them by a hash of the name. A row that each customer inserts would be
-- worse: if the step that inserts it is rolled back, two others that wait for the row deadlock.
CREATE TABLE IF NOT EXISTS customer_locks (
  slot SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (slot)
) ENGINE = InnoDB;

INSERT IGNORE INTO customer_locks (slot)
SELECT a.n + 16 * b.n + 256 * c.n + 4096 * d.n
  FROM (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
    UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11
    UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15) AS a,
  (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
    UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11
    UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15) AS b,
  (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
    UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11
    UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15) AS c,
  (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS d;

-- +goose Down
DROP TABLE IF EXISTS customer_locks;
SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0', CONCAT(
    'ALTER TABLE reservations DROP KEY reservations_open, DROP COLUMN units, DROP COLUMN extended_at'))
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'reservations' AND column_name = 'units');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- The rows that mysql-for-update locks. They are not those of the stock: a holder that locks the row of the stock on
-- one connection and sells on another would wait for itself. They hold no data, and stay.

-- +goose Up
CREATE TABLE IF NOT EXISTS lock_rows (
  name VARBINARY(255) NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS lock_rows;

-- The rows that mysql-for-update locks. Not those of the stock: who locks one of these on a connection and sells on another would wait
-- for itself. They hold nothing, and stay.

-- +goose Up
CREATE TABLE IF NOT EXISTS lock_rows (
  name VARBINARY(255) NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS lock_rows;

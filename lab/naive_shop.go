package lab

import (
	"context"
	"database/sql"
)

// A naiveShop is the stock of code that people write: a table in a database of its own.
type naiveShop struct {
	b  *Bench
	db *sql.DB
}

// newNaiveShop has one SKU, "sku", with so many units.
func newNaiveShop(b *Bench, units int) *naiveShop {
	db := b.DB()
	for _, s := range []string{
		"CREATE TABLE stock (sku VARCHAR(64) PRIMARY KEY, quantity INT NOT NULL) ENGINE=InnoDB",
		"CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(64), seen INT NOT NULL) ENGINE=InnoDB",
	} {
		_, err := db.ExecContext(b.Ctx, s)
		b.Must(s, err)
	}
	_, err := db.ExecContext(b.Ctx, "INSERT INTO stock VALUES ('sku', ?)", units)
	b.Must("put units in stock", err)
	b.initial = int64(units)
	return &naiveShop{b, db}
}

// A naiveSale is read, think, write in a transaction, step by step.
type naiveSale struct {
	shop *naiveShop
	who  string
	tx   *sql.Tx
	seen int64
}

// begin opens a transaction at the server's default isolation, REPEATABLE READ, unless told otherwise.
func (s *naiveShop) begin(who string, level sql.IsolationLevel) *naiveSale {
	tx, err := s.db.BeginTx(s.b.Ctx, &sql.TxOptions{Isolation: level})
	s.b.Must(who+": BEGIN", err)
	s.b.Note(who, "BEGIN")
	s.b.Defer(func() { _ = tx.Rollback() })
	return &naiveSale{shop: s, who: who, tx: tx}
}

// read is a plain SELECT, or with locking FOR UPDATE.
func (s *naiveSale) read(locking string) {
	s.seen = s.shop.b.Int(s.who, s.tx, "SELECT quantity FROM stock WHERE sku = 'sku' "+locking)
}

// write takes one off what was seen, if there was one, and records the order. It may wait for a row lock, so it can be told to run beside
// the scenario: what is wrong is in the channel then.
func (s *naiveSale) write() { s.shop.b.Must(s.who+": write", <-s.writing()) }

func (s *naiveSale) writing() <-chan error {
	done := make(chan error, 1)
	s.shop.b.Go(func(ctx context.Context) {
		if s.seen < 1 {
			s.shop.b.Note(s.who, "sold out")
			done <- nil
			return
		}
		_, err := s.tx.ExecContext(ctx, "UPDATE stock SET quantity = ? WHERE sku = 'sku'", s.seen-1)
		if err == nil {
			_, err = s.tx.ExecContext(ctx, "INSERT INTO orders (who, seen) VALUES (?, ?)", s.who, s.seen)
		}
		s.shop.b.Note(s.who, "UPDATE stock SET quantity = %d", s.seen-1)
		done <- err
	})
	return done
}

func (s *naiveSale) commit() {
	s.shop.b.Must(s.who+": COMMIT", s.tx.Commit())
	s.shop.b.Note(s.who, "COMMIT")
}

// verdict counts what was sold and what is left.
func (s *naiveShop) verdict() Observation {
	left := s.b.Int("mysql", s.db, "SELECT quantity FROM stock WHERE sku = 'sku'")
	sold := s.b.Int("mysql", s.db, "SELECT COUNT(*) FROM orders")
	s.b.Evidence(Balance, map[string]int64{"initial": s.b.initial, "sold": sold, "left": left}, "%d in stock, %d sold, %d left", s.b.initial, sold, left)
	same := s.b.Int("mysql", s.db, "SELECT COUNT(*) FROM orders a JOIN orders b ON a.id < b.id AND a.seen = b.seen")
	if same > 0 {
		s.b.Evidence(Pair, same, "%d pair of orders saw the same quantity", same)
	}
	if sold != s.b.initial-left {
		return Observation{Outcome: Oversells}
	}
	return Observation{Outcome: Safe}
}

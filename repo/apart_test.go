package repo_test

import (
	"context"
	"testing"
	"time"

	"gorm.io/gorm"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
)

// An ALTER TABLE aborts a transaction of a Galera node between two of its statements, even if the node is alone. If
// they are in one packet, the others run without the transaction, and the sale is booked in part. This is why such a
// node gets them apart; another server gets one packet.
func TestAGaleraNodeGetsStatementsApart(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	db := repotest.OpenMySQL(t, servertest.Galera(t, 1).Nodes[0].URL)
	do := func(statement string) {
		t.Helper()
		if err := db.Exec(statement).Error; err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	number := func(query string) (n int) {
		t.Helper()
		if err := db.Raw(query).Scan(&n).Error; err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return n
	}
	for _, apart := range []bool{false, true} {
		do("DROP TABLE IF EXISTS item, sale")
		do("CREATE TABLE item (units INT NOT NULL) ENGINE = InnoDB")
		do("CREATE TABLE sale (id INT PRIMARY KEY) ENGINE = InnoDB")
		do("INSERT INTO item VALUES (9)")
		m := repo.NewMySQL(db)
		if apart {
			nothing := func(context.Context) error { return nil }
			if err := m.OneWriter(false, func(repo.Engine) {}, nothing)(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		pause := "DO SLEEP(120); " // the abort ends it
		ended := make(chan error, 1)
		go func() {
			ended <- m.InTwoPackets(t.Context(), "sell", func(tx *gorm.DB) (*repo.Statement, error) {
				s := &repo.Statement{}
				s.Add("UPDATE item SET units = units - ?; "+pause+"INSERT INTO sale VALUES (?)", 1, 7)
				pause = ""
				_, err := repo.Send(tx, repo.Begin+"UPDATE item SET units = units")
				return s, err
			})
		}()
		servertest.Eventually(t, time.Minute, "the sale is between two statements", func() (bool, string) {
			return number("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'DO SLEEP%'") > 0, ""
		})
		do("ALTER TABLE item ADD COLUMN colour INT")
		err := <-ended
		sold, left := number("SELECT COUNT(*) FROM sale"), number("SELECT units FROM item")
		if apart && (err != nil || sold != 1 || left != 8) {
			t.Errorf("apart: %v; %d sold, %d units left", err, sold, left)
		}
		if !apart && sold == 9-left && (sold == 1) == (err == nil) {
			t.Errorf("in one packet: %v; %d sold, %d units left: then nothing has to be apart", err, sold, left)
		}
	}
}

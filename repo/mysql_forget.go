package repo

import (
	"context"

	"example.com/stock/service"
)

const (
	// forgetChunk is how many orders are looked at, and removed, at a time.
	forgetChunk = 1000
	// forgetChunks bounds what one Set removes. The next one goes on.
	forgetChunks = 20
)

// forget removes the orders of sku that nobody can ask for any more, because their epoch is over, and that are older
// than KeepOrders by the server's clock, the oldest first; and the tombstones, which are of epoch 0. It is one round
// trip where there are none, and two for each chunk. A failure is not told: the next Set, or Settle, tries again.
//
// They are read without a lock and removed one by one, by number: a DELETE over a range of epochs would lock the gap at its end, into which
// the sales of the new epoch insert.
func (m *MySQL) forget(ctx context.Context, sku service.SKU, epoch uint64) {
	db := m.db.WithContext(ctx)
	for range forgetChunks {
		var rows []struct {
			Seq uint64
			Old bool
		}
		err := db.Raw("SELECT seq, created_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND AS old FROM orders"+
			" WHERE sku = ? AND epoch < ? ORDER BY epoch, seq LIMIT ?",
			int(KeepOrders.Seconds()), string(sku), epoch, forgetChunk).Scan(&rows).Error
		var old []uint64
		for _, row := range rows {
			if row.Old {
				old = append(old, row.Seq)
			}
		}
		if err != nil || len(old) == 0 {
			return
		}
		if err := db.Where("seq IN ?", old).Delete(&orderRow{}).Error; err != nil || len(old) < forgetChunk {
			return
		}
	}
}

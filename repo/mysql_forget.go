package repo

import (
	"context"
	"time"

	"example.com/stock/service"
)

const (
	// forgetChunk is how many orders are looked at, and removed, at a time.
	forgetChunk = 1000
	// forgetChunks bounds what one Set removes. The next one goes on.
	forgetChunks = 20
)

// forget removes the orders of sku that nobody can ask for any more, because their epoch is over, and that are older than KeepOrders, the oldest
// first. It is one round trip where there are none, and two for each chunk. A failure is not told: the next Set tries again.
//
// They are read without a lock and removed one by one, by number: a DELETE over a range of epochs would lock the gap at its end, into which
// the sales of the new epoch insert.
func (m *MySQL) forget(ctx context.Context, sku service.SKU, epoch uint64) {
	before := time.Now().Add(-KeepOrders)
	for range forgetChunks {
		var rows []orderRow
		err := m.db.WithContext(ctx).Select("seq", "created_at").Where("sku = ? AND epoch < ?", string(sku), epoch).
			Order("epoch, seq").Limit(forgetChunk).Find(&rows).Error
		var old []uint64
		for _, row := range rows {
			if row.CreatedAt.Before(before) {
				old = append(old, row.Seq)
			}
		}
		if err != nil || len(old) == 0 {
			return
		}
		if err := m.db.WithContext(ctx).Where("seq IN ?", old).Delete(&orderRow{}).Error; err != nil || len(old) < forgetChunk {
			return
		}
	}
}

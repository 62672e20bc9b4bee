package service

// MergedSeen is Merged, and a func that tells how many sales of an SKU wait for a batch, of whatever store.
func MergedSeen(o MergeOptions) (Seller, func(SKU) int) {
	m := newMerged(o)
	return m.merged, func(sku SKU) (n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for key, q := range m.queues {
			if key.sku == sku {
				n += len(q.waiting)
			}
		}
		return n
	}
}

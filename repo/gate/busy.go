package gate

// Busy reports whether an operation with this key would have to wait for other operations with the same key.
func (g *Gate) Busy(key string) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[key]
	return q != nil && q.in >= g.limits.PerKey
}

package ratelimit

// Len returns how many customers are kept.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.paid)
}

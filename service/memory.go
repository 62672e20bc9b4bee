package service

import "sync"

// A memory remembers a bounded number of things. When it is full it forgets all, which costs a read of the store for
// each. It is safe for concurrent use.
type memory[K comparable, V any] struct {
	most   int
	mu     sync.RWMutex
	things map[K]V
}

func newMemory[K comparable, V any](most int) *memory[K, V] {
	return &memory[K, V]{most: most, things: make(map[K]V)}
}

func (m *memory[K, V]) get(key K) (thing V, known bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	thing, known = m.things[key]
	return thing, known
}

func (m *memory[K, V]) put(key K, thing V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.things[key]; !known && len(m.things) >= m.most {
		clear(m.things)
	}
	m.things[key] = thing
}

func (m *memory[K, V]) remove(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.things, key)
}

package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"example.com/stock/lock"
)

// MaxKey is the longest key of a lock, in bytes. A key is a SKU, the key of a segment, or a key of the command "stock
// lock".
const MaxKey = 256

// An Eviction is the result of taking a lock from its holder.
type Eviction struct {
	Fence  lock.Fence
	Holder *lock.Contender // the holder just before the eviction; nil: there was none, or it is unknown
	// Stores has an entry for each store that has the SKU. If the error is nil, the store already refuses writes of the
	// evicted holder. Otherwise it refuses them only after the next holder has written.
	Stores map[string]error
}

// A Locked is the state of the lock of a key.
type Locked struct {
	lock.State
	Segments []SegmentLock // only for a SKU sold in segments: the locks with a holder or a waiter
}

// Lock returns the holder and the waiters of key under strategy. If the strategy has a lock for each segment, key is
// the key of one segment, such as "sku#3", or the SKU for all of them.
//
// Errors: ErrUnknownStrategy, ErrNotInspectable, InvalidError, lock.ErrDown.
func (s *Service) Lock(ctx context.Context, strategy, key string) (Locked, error) {
	config, err := s.lockOf(strategy, key)
	if err != nil {
		return Locked{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	var seen Locked
	if sku, wrong := ParseSKU(key); config.Segmented && wrong == nil {
		seen, err = segmentLocks(ctx, config.Lock, sku)
	} else {
		seen.State, err = lock.Inspect(ctx, config.Lock, key)
	}
	return seen, unsupported(err, strategy, ErrNotInspectable)
}

// Evict takes key from its holder under strategy, lets the next waiter acquire the lock, and raises the fence in the
// stores. From then on they refuse a write of the evicted holder with ErrStaleFence, even before the next holder has
// written. Evict continues even if ctx ends. If the strategy has a lock for each segment, key must be the key of one
// segment.
//
// Errors: those of Lock, and ErrNotEvictable. After lock.ErrDown it is not known whether the holder was evicted.
func (s *Service) Evict(ctx context.Context, strategy, key string) (Eviction, error) {
	config, err := s.lockOf(strategy, key)
	if err != nil {
		return Eviction{}, err
	}
	sku, segment, fenced := targetOf(config, key)
	if config.Segmented && !fenced {
		return Eviction{}, Invalid("key", "segment")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Work)
	defer cancel()
	before, err := lock.Inspect(ctx, config.Lock, key)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return Eviction{}, err
	}
	fence, err := lock.Evict(ctx, config.Lock, key)
	if err != nil {
		return Eviction{}, unsupported(err, strategy, ErrNotEvictable)
	}
	e := Eviction{Fence: fence, Holder: before.Holder}
	if fenced {
		e.Stores = s.raise(ctx, strategy, sku, segment, fence)
	}
	return e, nil
}

// lockOf returns the config of a strategy that has a lock whose servers are up.
func (s *Service) lockOf(strategy, key string) (StrategyConfig, error) {
	if err := CheckKey(key); err != nil {
		return StrategyConfig{}, err
	}
	config, ok := s.Strategies[strategy]
	if !ok {
		return StrategyConfig{}, fmt.Errorf("%w %q", ErrUnknownStrategy, strategy)
	}
	for _, need := range config.Needs {
		if err := need.Err(); err != nil {
			return StrategyConfig{}, err
		}
	}
	if config.Lock == nil {
		return StrategyConfig{}, fmt.Errorf("strategy %s: %w", strategy, ErrNotInspectable)
	}
	return config, nil
}

// raise raises the fence in every store that is up and has the SKU, and returns what became of it.
func (s *Service) raise(
	ctx context.Context, strategy string, sku SKU, segment int, fence lock.Fence,
) map[string]error {
	told := make(map[string]error)
	for name, config := range s.Stores {
		err := config.Needs.Err()
		if err == nil {
			err = config.Store.Raise(Begin(ctx), sku, segment, strategy, uint64(fence))
		}
		if !errors.Is(err, ErrUnknownSKU) {
			told[name] = err
		}
	}
	return told
}

func unsupported(err error, strategy string, as error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("strategy %s: %w", strategy, as)
	}
	return err
}

// CheckKey checks the key of a lock. Every Locker accepts a key that passes this check. The error is an InvalidError
// for the field "key".
func CheckKey(key string) error {
	switch {
	case key == "" || len(key) > MaxKey:
		return Invalid("key", "bytes", "least", 1, "most", MaxKey, "has", len(key))
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return Invalid("key", "key")
	}
	return nil
}

// A SegmentLock is the lock of one segment.
type SegmentLock struct {
	Segment int
	Key     string // such as "sku#3"
	lock.State
}

// segmentKey returns the key of a segment's lock. It cannot be a SKU, because no SKU contains "#".
func segmentKey(sku SKU, segment int) string { return string(sku) + "#" + strconv.Itoa(segment) }

func parseSegmentKey(key string) (sku SKU, segment int, ok bool) {
	name, number, _ := strings.Cut(key, "#")
	segment, err := strconv.Atoi(number)
	if err != nil || segment < 1 || segment > MaxSegments {
		return "", 0, false
	}
	sku, err = ParseSKU(name)
	return sku, segment, err == nil && segmentKey(sku, segment) == key // reject "sku#+1", which is no key
}

// targetOf returns the stock, or the segment of it (0: the whole), to which the holder of key writes. ok is false for a
// key without a stock, such as one of "stock lock run".
func targetOf(config StrategyConfig, key string) (sku SKU, segment int, ok bool) {
	if config.Segmented {
		return parseSegmentKey(key)
	}
	sku, err := ParseSKU(key)
	return sku, 0, err == nil
}

// segmentLocks inspects the locks of all MaxSegments segments, because processes may be configured with different
// numbers of segments.
func segmentLocks(ctx context.Context, l lock.Locker, sku SKU) (Locked, error) {
	keys := make([]string, MaxSegments)
	for i := range keys {
		keys[i] = segmentKey(sku, i+1)
	}
	states, err := lock.InspectAll(ctx, l, keys)
	if err != nil {
		return Locked{}, err
	}
	var all Locked
	for i, state := range states {
		all.Local = state.Local
		if state.Holder != nil || len(state.Waiters) > 0 {
			all.Segments = append(all.Segments, SegmentLock{i + 1, keys[i], state})
		}
	}
	return all, nil
}

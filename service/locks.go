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

// MaxKey is the longest key of a lock, in bytes. Keys that are no SKU are those of "stock lock", and of segments.
const MaxKey = 256

// A Fencer is a store whose fence can be raised without a write.
type Fencer interface {
	// Raise makes fence the smallest that a write to the segment of sku may carry, unless the store has a larger one
	// already; segment 0 stands for the whole stock. It is one step. If no strategy guards the stock, strategy does
	// from then on, because fences of different strategies cannot be compared. If the segment does not exist, Raise
	// creates it without units. It fails with a GuardError if another strategy guards the stock.
	Raise(ctx context.Context, sku SKU, segment int, strategy string, fence uint64) error
}

// An Eviction is the result of taking a lock from its holder.
type Eviction struct {
	Fence  lock.Fence
	Holder *lock.Contender // the holder just before; nil: there was none, or it is not known
	// Stores has the stores with a SKU of that name. After a nil error the store refuses writes of the evicted holder.
	// After another error it does so when the next holder has written.
	Stores map[string]error
}

// A Locked is the lock state of a key.
type Locked struct {
	lock.State
	Segments []SegmentLock // of a SKU that is sold in segments: those that somebody holds or waits for
}

// Lock returns the holder of key under strategy, and the waiters. If the strategy has a lock for each segment, key is
// the key of one, such as "sku#3", or the SKU for all of them.
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

// Evict takes key from its holder under strategy, lets the next waiter in, and raises the fence in the stores, so that
// they refuse a write of the evicted holder with ErrStaleFence even before the next holder has written. It is finished
// even if ctx ends. If the strategy has a lock for each segment, key must be the key of one.
//
// Errors: those of Lock, and ErrNotEvictable. After lock.ErrDown it is not known whether the holder was evicted.
func (s *Service) Evict(ctx context.Context, strategy, key string) (Eviction, error) {
	config, err := s.lockOf(strategy, key)
	if err != nil {
		return Eviction{}, err
	}
	target, fenced := targetOf(config, key)
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
		e.Stores = s.raise(ctx, strategy, target, fence)
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

// raise raises the fence of a stock, or of a segment, in all stores.
func (s *Service) raise(ctx context.Context, strategy string, t target, fence lock.Fence) map[string]error {
	told := make(map[string]error)
	for name, config := range s.Stores {
		err := config.Needs.Err()
		if err == nil {
			fencer, ok := config.Store.(Fencer)
			if !ok {
				continue
			}
			err = fencer.Raise(Begin(ctx), t.sku, t.segment, strategy, uint64(fence))
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

// CheckKey checks the key of a lock. Every lock can take those that pass. The error is an InvalidError for the
// field "key".
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

// segmentKey is the key of a segment's lock. No SKU has a "#" in it.
func segmentKey(sku SKU, segment int) string { return string(sku) + "#" + strconv.Itoa(segment) }

// parseSegmentKey is the reverse of segmentKey.
func parseSegmentKey(key string) (sku SKU, segment int, ok bool) {
	name, number, _ := strings.Cut(key, "#")
	segment, err := strconv.Atoi(number)
	if err != nil || segment < 1 || segment > MaxSegments {
		return "", 0, false
	}
	sku, err = ParseSKU(name)
	return sku, segment, err == nil && segmentKey(sku, segment) == key // "sku#+1" is a key that nobody asks for
}

// A target is what the holder of a lock writes to: a stock or a segment.
type target struct {
	sku     SKU
	segment int // 0: the whole
}

// targetOf returns false for a key that belongs to no stock, such as one of "stock lock".
func targetOf(config StrategyConfig, key string) (t target, ok bool) {
	if config.Segmented {
		t.sku, t.segment, ok = parseSegmentKey(key)
		return t, ok
	}
	sku, err := ParseSKU(key)
	return target{sku: sku}, err == nil
}

// segmentLocks inspects the locks of all MaxSegments segments, one after the other, because each process that sells may
// use another number of segments.
func segmentLocks(ctx context.Context, l lock.Locker, sku SKU) (Locked, error) {
	var all Locked
	for n := 1; n <= MaxSegments; n++ {
		key := segmentKey(sku, n)
		standing, err := lock.Inspect(ctx, l, key)
		if err != nil {
			return Locked{}, err
		}
		all.Scope = standing.Scope
		if standing.Holder != nil || len(standing.Waiters) > 0 {
			all.Segments = append(all.Segments, SegmentLock{n, key, standing})
		}
	}
	return all, nil
}

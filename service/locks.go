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

var (
	// ErrNotInspectable: the strategy has no lock, or one that does not tell who has it.
	ErrNotInspectable = errors.New("lock cannot be inspected")
	// ErrNotEvictable: the strategy's lock has no fence, so that the evicted holder could still write.
	ErrNotEvictable = errors.New("lock cannot be taken from its holder")
)

// A Fencer is a store that can be told of a fence without a write.
type Fencer interface {
	// Raise makes fence the smallest that a write to the segment of sku may carry, or with segment 0 to the whole,
	// unless a larger one is, in one step. It is as if strategy had written with it: a stock that nobody guards yet
	// is guarded by strategy from then on, because the fences of others do not compare. A segment that is not there
	// yet is made, with nothing in it. It fails with a GuardError if another strategy guards the stock.
	Raise(ctx context.Context, sku SKU, segment int, strategy string, fence uint64) error
}

// An Eviction is a lock taken from its holder.
type Eviction struct {
	Fence  lock.Fence
	Holder *lock.Contender // who was seen to hold the key just before; nil: nobody, or it is not known
	// Stores are those that have a SKU of that name. A nil error says that the store refuses the evicted holder's
	// writes from now on. With another it does so once the next holder has written.
	Stores map[string]error
}

// A Locked is the lock state of a key.
type Locked struct {
	lock.State
	Segments []SegmentLock // of a SKU that is sold in segments: those that somebody holds or waits for
}

// Lock tells who holds key under strategy and who waits for it. Where a strategy has a lock for each segment, key
// is one of those, such as "sku#3", or the SKU for all of them.
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

// Evict takes key away from its holder under strategy, lets the next one in, and tells the stores, so that a
// write of the evicted holder is refused with ErrStaleFence although nobody else has written. It is finished though
// ctx ends. Where a strategy has a lock for each segment, key must be one of those.
//
// Errors: as Lock, with ErrNotEvictable. After lock.ErrDown it is not known whether somebody was evicted.
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

// lockOf is the config with the lock, if it is up.
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

// raise tells the stores of the fence of a part of their stock.
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

// A target is what the holder of a lock writes to: a stock, or a segment of it.
type target struct {
	sku     SKU
	segment int // 0: the whole
}

// targetOf is false for keys that belong to no stock, such as those of "stock lock".
func targetOf(config StrategyConfig, key string) (t target, ok bool) {
	if config.Segmented {
		t.sku, t.segment, ok = parseSegmentKey(key)
		return t, ok
	}
	sku, err := ParseSKU(key)
	return target{sku: sku}, err == nil
}

// segmentLocks asks for every segment that there may be, one after the other: how many there are is up to each
// process that sells. It is for people: it takes the time of MaxSegments questions.
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

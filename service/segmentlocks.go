package service

import (
	"context"
	"strconv"
	"strings"

	"example.com/stock/lock"
)

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
func targetOf(offer StrategyConfig, key string) (t target, ok bool) {
	if offer.Segmented {
		t.sku, t.segment, ok = parseSegmentKey(key)
		return t, ok
	}
	sku, err := ParseSKU(key)
	return target{sku: sku}, err == nil
}

// segmentLocks asks for every segment that there may be, one after the other: how many there are is up to each process that sells. It is for
// people, who have the MaxSegments questions' time.
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

package ledger

import (
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

var _ order.DeadLetters = (*Redis)(nil)

// deadKey is a hash of all dead letters, with a field for each SKU. It has no braces, so it is not the key of a SKU.
const deadKey = "stock:dead"

//go:embed dead_park.lua
var deadParkSource string

//go:embed dead_decide.lua
var deadDecideSource string

var (
	deadParkScript   = redisscript.New(deadParkSource)
	deadDecideScript = redisscript.New(deadDecideSource)
)

// Park takes one round trip.
func (l *Redis) Park(ctx context.Context, d order.DeadLetter) error {
	d.ParkedAt, d.Decision = time.Time{}, order.Undecided
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode a dead letter: %w", err)
	}
	_, err = l.redis.Run(ctx, "park an event", deadParkScript, []string{deadKey}, string(d.SKU), string(text))
	return err
}

// Parked takes one round trip. It reads all dead letters, whatever the limit is, because there should be only a few.
func (l *Redis) Parked(ctx context.Context, after service.SKU, limit int) ([]order.DeadLetter, error) {
	const doing = "read the dead letters"
	if err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	leave, err := l.redis.Enter(ctx, doing, deadKey)
	if err != nil {
		return nil, err
	}
	defer leave()
	fields, err := l.redis.Client().HGetAll(ctx, deadKey).Result()
	if err != nil {
		return nil, repo.RedisFault(ctx, doing, deadKey, err)
	}
	l.redis.CountAnswer(nil)
	var letters []order.DeadLetter
	for sku, text := range fields {
		if sku <= string(after) {
			continue
		}
		letter, err := parseDead(text)
		if err != nil {
			return nil, err
		}
		letters = append(letters, letter)
	}
	slices.SortFunc(letters, func(a, b order.DeadLetter) int { return strings.Compare(string(a.SKU), string(b.SKU)) })
	return letters[:min(limit, len(letters))], nil
}

// Decide takes two round trips, and two more for each concurrent change of the letter. It fails with
// service.ErrConflict after repo.Attempts changes.
func (l *Redis) Decide(ctx context.Context, sku service.SKU, number uint64, v order.Decision) error {
	const doing = "decide on a dead letter"
	for range repo.Attempts {
		old, err := l.deadLetter(ctx, doing, sku)
		if err != nil {
			return err
		}
		letter, err := parseDead(old)
		if old == "" || letter.Number != number && err == nil {
			return fmt.Errorf("%s/%d: %w", sku, number, order.ErrNoDeadLetter)
		}
		if err != nil {
			return err
		}
		fresh := ""
		if v != order.Settled {
			stamp, _, _ := strings.Cut(old, " ")
			letter.ParkedAt, letter.Decision = time.Time{}, v
			text, err := json.Marshal(letter)
			if err != nil {
				return fmt.Errorf("encode a dead letter: %w", err)
			}
			fresh = stamp + " " + string(text)
		}
		_, err = l.redis.Run(ctx, doing, deadDecideScript, []string{deadKey}, string(sku), old, fresh)
		if !errors.Is(err, service.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%s: %w", doing, service.ErrConflict)
}

// deadLetter returns the text of the letter of a SKU, or "" if there is none.
func (l *Redis) deadLetter(ctx context.Context, doing string, sku service.SKU) (string, error) {
	leave, err := l.redis.Enter(ctx, doing, deadKey)
	if err != nil {
		return "", err
	}
	defer leave()
	text, err := l.redis.Client().HGet(ctx, deadKey, string(sku)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", repo.RedisFault(ctx, doing, deadKey, err)
	}
	l.redis.CountAnswer(nil)
	return text, nil
}

// parseDead parses the text that dead_park.lua writes: the time in microseconds, a blank, and the letter.
func parseDead(text string) (letter order.DeadLetter, err error) {
	stamp, encoded, _ := strings.Cut(text, " ")
	micros, err := strconv.ParseInt(stamp, 10, 64)
	if err == nil {
		err = json.Unmarshal([]byte(encoded), &letter)
	}
	if err != nil {
		return letter, fmt.Errorf("key %s has a field that is not a dead letter: %w", deadKey, err)
	}
	letter.ParkedAt = time.UnixMicro(micros).UTC()
	return letter, nil
}

package ledger

import (
	"context"
	"time"
)

func idempotencyKey(id string) string { return "ledger:key:" + id }

// Forget does nothing, because Redis expires the keys: see [repo.Redis.KeepKeysFor].
func (l *Redis) Forget(context.Context, time.Duration, int) (int, error) { return 0, nil }

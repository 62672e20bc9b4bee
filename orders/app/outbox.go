package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"example.com/stock/orders/config"
	"example.com/stock/orders/outbox"
)

// newSender returns what sends the events of the queue until ctx ends; nil: the settings want none to be sent.
func newSender(c *config.Config, queue outbox.Queue) (func(context.Context), error) {
	switch c.Outbox.Sink {
	case "redis":
		o, err := redis.ParseURL(c.Outbox.Redis)
		if err != nil {
			return nil, errors.New("outbox.redis: it cannot be read") // err may have the password
		}
		o.MaxRetries = -1 // the sender tries again
		return func(ctx context.Context) {
			client := redis.NewClient(o)
			sink := outbox.Stream(client, c.Outbox.Stream, int64(c.Outbox.MaxLength))
			outbox.Sender{Queue: queue, Sink: sink}.Run(ctx)
			if err := client.Close(); err != nil {
				slog.Error("close the connections to Redis", "error", err)
			}
		}, nil
	case "webhook":
		sink, err := outbox.Webhook(c.Outbox.WebhookURL, c.Outbox.Private, c.Outbox.WebhookSecrets...)
		if err != nil {
			return nil, fmt.Errorf("outbox: %w", err)
		}
		return outbox.Sender{Queue: queue, Sink: sink}.Run, nil
	}
	return nil, nil
}

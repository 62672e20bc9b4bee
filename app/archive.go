package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"example.com/stock/service/archive"
	"example.com/stock/service/order"
)

// An Archive archives the ledger of the default store and verifies its archive files.
type Archive struct {
	app   *App
	store archive.Store
}

// OpenArchive opens the store. It does not connect. The caller must close the result.
func OpenArchive(cfg Config, log *slog.Logger) (*Archive, error) {
	a := newApp(cfg, "", log)
	books, err := a.openLedger()
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return &Archive{a, books}, nil
}

// Run calls [archive.Run] with o. It sets MinAge and Name from the configuration.
func (a *Archive) Run(ctx context.Context, o archive.Options) (archive.Report, error) {
	o.Name = a.app.cfg.Store
	o.MinAge = a.minAge()
	return archive.Run(ctx, a.store, o)
}

// minAge returns the age from which orders may be archived. At this age no idempotency key is stored any more, and no
// reservation is still held.
func (a *Archive) minAge() time.Duration { return max(a.app.cfg.Orders.KeepKeys, order.MaxTTL) }

// Verify checks files against the store; see [archive.Verify].
func (a *Archive) Verify(ctx context.Context, paths []string) (archive.Check, error) {
	return archive.Verify(ctx, a.store, paths)
}

func (a *Archive) Close() error { return a.app.close() }

package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"example.com/stock/service/archive"
	"example.com/stock/service/order"
)

// An Archive is the ledger of the default store, and what was archived of it.
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

// Run archives what o says, as [archive.Run]. MinAge and Name are those of the configuration.
func (a *Archive) Run(ctx context.Context, o archive.Options) (archive.Report, error) {
	o.Name = a.app.cfg.Store
	o.MinAge = a.minAge()
	return archive.Run(ctx, a.store, o)
}

// minAge is how old must be what is archived: no key that can be replayed and no reservation that can be held is
// younger.
func (a *Archive) minAge() time.Duration { return max(a.app.cfg.Orders.KeepKeys, order.MaxTTL) }

// Verify checks files against the store, as [archive.Verify].
func (a *Archive) Verify(ctx context.Context, paths []string) (archive.Check, error) {
	return archive.Verify(ctx, a.store, paths)
}

// Close closes the store.
func (a *Archive) Close() error { return a.app.close() }

package app

import (
	"context"
	"errors"
	"log/slog"

	"example.com/stock/service"
	"example.com/stock/service/repair"
)

// A Repair mends the books of the default store.
type Repair struct {
	app     *App
	store   repair.Store
	origins service.Origins
}

// OpenRepair opens the store. It does not connect. The caller must call Close.
func OpenRepair(cfg Config, log *slog.Logger) (*Repair, error) {
	a := newApp(cfg, "", log)
	books, origins, err := a.openBooks()
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return &Repair{a, books, origins}, nil
}

// place returns the identity of the store.
func (r *Repair) place(ctx context.Context) (repair.Place, error) {
	o, err := r.origins.Origin(ctx)
	return repair.Place{Name: r.app.cfg.Store, Origin: o.ID}, err
}

// Plan makes a plan; see [repair.Make].
func (r *Repair) Plan(ctx context.Context, skus []service.SKU) (repair.Plan, error) {
	place, err := r.place(ctx)
	if err != nil {
		return repair.Plan{}, err
	}
	return repair.Make(ctx, r.store, place, skus)
}

// Apply applies a plan; see [repair.Apply].
func (r *Repair) Apply(
	ctx context.Context, p repair.Plan, chosen map[service.SKU]string, done func(repair.Result),
) error {
	place, err := r.place(ctx)
	if err != nil {
		return err
	}
	return repair.Apply(ctx, r.store, place, p, chosen, done)
}

func (r *Repair) Close() error { return r.app.close() }

package repair

import (
	"context"
	"errors"
	"slices"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// States of a Result.
const (
	Applied  = "applied"  // the adjustment was written now
	Already  = "already"  // it was written by an earlier Apply
	Moved    = "moved"    // the books have changed since the plan was made; nothing was written
	Open     = "open"     // a person must choose an option; nothing was written
	Hopeless = "hopeless" // no adjustment mends the books; nothing was written
)

// A Result is what became of one SKU.
type Result struct {
	Mend
	State  string
	Option Option // the option that was chosen
	Number uint64 // of the adjustment, if State is Applied or Already
}

// A ChoiceError reports a choice that the plan does not offer.
type ChoiceError struct {
	SKU     service.SKU
	Believe string
}

func (e *ChoiceError) Error() string { return string(e.SKU) + " has no option " + e.Believe }

// Apply writes the adjustments of a plan that Parse has returned. chosen has the options for SKUs whose plan needs a
// choice, and replaces the plan's own choice for the others. It calls done for each SKU.
//
// Each adjustment is one isolated step of the store, so Apply can be interrupted, and repeated: the number of the
// adjustment follows those of the plan, so it can be written only once. Apply fails before the first write with a
// PlanError if the plan is for another store, and with a ChoiceError if chosen does not fit. Later errors match
// lock.ErrDown or service.ErrOutcomeUnknown: apply the plan again.
func Apply(
	ctx context.Context, s Store, place Place, p Plan, chosen map[service.SKU]string, done func(Result),
) error {
	if p.Store != place {
		return refuse(OtherStore, "plan", p.Store.Name, "store", place.Name)
	}
	results := make([]Result, len(p.SKUs))
	known := make(map[service.SKU]bool, len(p.SKUs))
	for i, m := range p.SKUs {
		known[m.SKU] = true
		name, explicit := chosen[m.SKU]
		if !explicit {
			name = m.Choice
		}
		results[i] = Result{Mend: m, State: Open}
		at := slices.IndexFunc(m.Options, func(o Option) bool { return o.Believe == name })
		switch {
		case at >= 0:
			results[i].Option, results[i].State = m.Options[at], ""
		case explicit:
			return &ChoiceError{m.SKU, name}
		case len(m.Options) == 0:
			results[i].State = Hopeless
		}
	}
	for sku, name := range chosen {
		if !known[sku] {
			return &ChoiceError{sku, name}
		}
	}
	for _, r := range results {
		if r.State == "" {
			if err := r.write(ctx, s, p.ID); err != nil {
				return &SKUError{r.SKU, err}
			}
		}
		done(r)
	}
	return nil
}

// write writes the adjustment, and sets State and Number.
func (r *Result) write(ctx context.Context, s Store, plan string) error {
	r.Number = max(r.Books.Number, r.Last) + 1
	was, err := call(ctx, func(ctx context.Context) (order.Level, error) { return s.Level(ctx, r.SKU) })
	if errors.Is(err, service.ErrUnknownSKU) {
		r.State = Moved
		return nil
	}
	if err != nil {
		return err
	}
	if was.Number == r.Books.Number && amounts(was) == r.Books.Counters {
		is := r.Option.Counters.level(r.Number)
		is.PerCustomer = was.PerCustomer
		a := r.Option.Adjust
		_, err = call(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.Correct(ctx, order.Correction{
				Was: was, Is: is, Last: r.Last, Movement: order.Movement{
					SKU: r.SKU, Number: r.Number, Kind: order.Adjust,
					Received: a.Received, Available: a.Available, Reserved: a.Reserved, Sold: a.Sold,
					Ref: plan, Reason: "repair: " + r.Option.Believe,
				},
			})
		})
		if err == nil {
			r.State = Applied
			return nil
		}
		if !errors.Is(err, order.ErrMoved) {
			return err
		}
	}
	r.State = Moved
	found, err := call(ctx, func(ctx context.Context) ([]order.Movement, error) {
		return s.Movements(ctx, r.SKU, r.Number-1, 1)
	})
	if err == nil && len(found) == 1 && found[0].Ref == plan {
		r.State = Already
	}
	return err
}

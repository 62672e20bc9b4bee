package loadtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"example.com/stock/internal/words"
)

// A Look is the subject of an inspection.
type Look struct {
	Store, SKU string
	Initial    *int64 // initial units in stock; nil: as the store reports
	Accepted   *int64 // requests that a tool counted as accepted; nil: unknown
	AtMost     *int64 // without Accepted: requests that a tool did not count as refused; nil: unknown
	AtLeast    *int64 // without Accepted: accepted requests that a tool counted until it met its limit; nil: unknown
	Quantity   int64  // units per accepted request; 0: unknown, or 1 if the target lists no orders
	CutOff     int64  // uncounted requests that the tool may have cut off at its end
	Shared     bool   // others may have sold from the SKU

	// time until Inspect's second look at stock and orders; nil: Recheck; 0: no second look
	Recheck *time.Duration
	// how late the target may report changes of stock and orders; 0: LateLimit
	Late time.Duration
}

// An Inspection is the judgement on a SKU from the store alone, after a load by any tool.
type Inspection struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Target  string `json:"target"`
	Store   string `json:"store"`
	SKU     string `json:"sku"`

	Finding Finding      `json:"finding"`
	Reasons []Reason     `json:"reasons"` // none if it holds
	Notes   []words.Text `json:"notes"`   // remarks that are not reasons

	Initial   int64    `json:"initial_units"`
	Sold      int64    `json:"sold_units"`      // by the orders
	Remaining int64    `json:"remaining_units"` // 0 if not Known
	Known     bool     `json:"remaining_known"`
	Oversold  int64    `json:"oversold_units"`
	Lost      int64    `json:"lost_units"` // sold, and not deducted
	Orders    int      `json:"orders"`
	Accepted  *int64   `json:"accepted"` // as given; null: not known
	Ways      []string `json:"strategies"`
	Instances []string `json:"instances"`

	Collisions   int         `json:"collisions"` // pairs
	Certificates []Collision `json:"certificates"`
	StaleReads   int         `json:"stale_reads"`
	FenceDrops   int         `json:"fence_drops"`

	// LookedAt is when the stock was read. The finding does not cover later changes.
	LookedAt time.Time `json:"looked_at"`
}

// InspectionFormat and InspectionVersion are the format and version of every Inspection.
const (
	InspectionFormat  = "stock-verdict"
	InspectionVersion = 1
)

// Inspect judges from the store alone: from the stock of one SKU, and from the orders written since it was set. It
// waits until the stock has been at rest for a second, because requests of the tool may still be in progress. It looks
// again after Look.Recheck, because a service may take back a sale. It does not see later changes. If ctx ends before
// the second look, there is none.
//
// The store does not record the replies to customers. Look.Accepted is the only evidence that a sale was refused, or
// accepted twice. Errors are TargetErrors and PlanErrors.
func Inspect(ctx context.Context, t Target, look Look) (*Inspection, error) {
	recheck := Recheck
	if look.Recheck != nil {
		recheck = *look.Recheck
	}
	if recheck < 0 || recheck > maxRecheck {
		return nil, wrong("recheck", "recheck", "most", maxRecheck, "given", recheck)
	}
	now, err := t.Stock(ctx, look.Store, look.SKU)
	if err != nil {
		return nil, err
	}
	before := now
	before.Quantity, before.Version = now.Initial, 0
	if a, is := t.(assumer); is {
		if before.Quantity, err = a.Assume(ctx, look); err != nil {
			return nil, err
		}
	}
	a, v := look.read(ctx, t, before, nil)
	if !v.has(AboutStock) && !v.has(AboutReplies) && recheck > 0 && Sleep(ctx, recheck) == nil {
		a, v = look.read(ctx, t, before, &a)
	}
	if ctx.Err() != nil && v.mayComeRight() && (v.has(AboutStock) || v.has(AboutReplies)) {
		return nil, context.Cause(ctx) // the store did not have its time to agree
	}
	i := &Inspection{
		Format:       InspectionFormat,
		Version:      InspectionVersion,
		Target:       t.URL(),
		Store:        now.Store,
		SKU:          look.SKU,
		Initial:      v.InitialUnits,
		Sold:         v.AcceptedUnits,
		Remaining:    v.RemainingUnits,
		Known:        v.Known,
		Oversold:     v.OversoldUnits,
		Lost:         v.LostUnits,
		Orders:       len(a.Orders),
		Accepted:     look.Accepted,
		Ways:         []string{},
		Instances:    []string{},
		Collisions:   v.Collisions,
		Certificates: slices.Concat([]Collision{}, v.Certificates),
		StaleReads:   v.StaleReads,
		FenceDrops:   v.FenceDrops,
		Notes:        slices.Concat([]words.Text{}, v.Limits),
		LookedAt:     a.LookedAt,
	}
	for _, o := range a.Orders {
		i.Ways, i.Instances = with(i.Ways, o.Strategy), with(i.Instances, o.Instance)
	}
	if look.Initial == nil && before.Mapped {
		v.because(AboutEvidence, "initial-unknown", "n", before.Quantity)
	}
	if look.Initial != nil && *look.Initial != before.Quantity {
		v.because(AboutEvidence, "other-initial", "stored", before.Quantity, "given", *look.Initial)
	}
	if v.AcceptedUnits == 0 && (a.Complete || before.Unlisted) {
		v.because(AboutEvidence, "nothing-sold")
	}
	switch {
	case a.Complete:
		i.compare(v, look, a.Orders)
	case look.Accepted == nil && look.AtLeast != nil:
		v.because(AboutEvidence, "counted-at-least", "n", *look.AtLeast)
	}
	v.decide(Promise{Scope: Cluster}, before.Mapped)
	i.Finding, i.Reasons = v.Finding, slices.Concat([]Reason{}, v.Reasons)
	if i.Finding == Holds && i.Remaining >= max(look.Quantity, 1) {
		i.Notes = append(i.Notes, say("warning.never-ran-out", "left", i.Remaining, "initial", i.Initial))
	}
	return i, nil
}

// read is one look. earlier is the result of an earlier look, or nil.
func (look *Look) read(ctx context.Context, t Target, before Stock, earlier *Account) (a Account, v *Verdict) {
	LookAgain(ctx, look.Late, func() bool {
		reading, cancel := context.WithTimeout(ctx, lookLimit)
		defer cancel()
		a = account(reading, t, before, look.Store, true, time.Now().Add(comeback))
		if earlier != nil {
			a = earlier.again(a)
		}
		v, _ = examine(Evidence{Records: look.replies(&a), Accounts: []Account{a}, Shared: true})
		return v.mayComeRight()
	})
	if len(a.Undone) > 0 && !look.Shared {
		o := &a.Undone[0]
		v.because(AboutEvidence, "undone-counted", "n", len(a.Undone), "first", stranger(o.OrderID, o.RequestID))
	}
	return a, v
}

func with(list []string, name string) []string {
	if at, there := slices.BinarySearch(list, name); name != "" && !there {
		return slices.Insert(list, at, name)
	}
	return list
}

// compare compares the count of a tool with the orders. Every accepted reply must have an order of the requested units,
// and every order a reply, except for Look.CutOff: a tool that runs for a fixed time cuts off the requests in flight at
// its end, and does not count them.
func (i *Inspection) compare(v *Verdict, look Look, orders []Order) {
	if look.Quantity > 0 {
		var other finding
		for k := range orders {
			if o := &orders[k]; o.Quantity != look.Quantity {
				other.add(phrases.Say("found.took", "order", o.OrderID, "took", o.Quantity))
			}
		}
		switch {
		case other.n == 0:
		case look.Shared:
			i.note("other-quantity", "n", other.n, "asked", look.Quantity, "first", other.first)
		default:
			v.because(AboutReplies, "misserved-each", "n", other.n, "asked", look.Quantity, "first", other.first)
		}
	} else {
		i.note("quantity-unknown")
	}
	n := int64(i.Orders)
	switch {
	case i.Accepted == nil && look.AtMost != nil && (n <= *look.AtMost+look.CutOff || look.Shared):
		i.note("accepted-at-most", "n", *look.AtMost)
	case i.Accepted == nil && look.AtMost != nil:
		v.because(AboutEvidence, "foreign-counted", "n", n-*look.AtMost)
	case i.Accepted == nil && look.AtLeast != nil && *look.AtLeast > n:
		v.because(AboutReplies, "phantoms-counted", "accepted", *look.AtLeast, "orders", i.Orders)
	case i.Accepted == nil && look.AtLeast != nil:
		i.note("accepted-at-least", "n", *look.AtLeast)
	case i.Accepted == nil:
		i.note("accepted-unknown")
	case *i.Accepted > n:
		v.because(AboutReplies, "phantoms-counted", "accepted", *i.Accepted, "orders", i.Orders)
	case *i.Accepted == n:
	case look.Shared || n-*i.Accepted <= look.CutOff:
		i.note("more-orders", "n", n-*i.Accepted)
	default:
		v.because(AboutEvidence, "foreign-counted", "n", n-*i.Accepted)
	}
}

func (i *Inspection) note(key string, pairs ...any) {
	i.Notes = append(i.Notes, phrases.Say("note."+key, pairs...))
}

// replies returns records that represent a tool's count, for a target that lists no orders: one for all units that were
// accepted, and one for the missing units that the tool may have sold without counting them.
func (look *Look) replies(a *Account) (records []Record) {
	counted := cmp.Or(look.Accepted, look.AtLeast)
	if !a.Before.Unlisted || counted == nil {
		return nil
	}
	each := max(look.Quantity, 1)
	add := func(units int64, r Reply) {
		if units > 0 {
			records = append(records, Record{Store: look.Store, SKU: look.SKU, Quantity: units, Reply: r})
		}
	}
	add(*counted*each, Reply{Outcome: Accepted, OrderID: "1", Receipt: &Receipt{Blind: true}})
	if a.After != nil {
		missing := a.Before.Quantity - a.After.Quantity - *counted*each
		if look.Accepted != nil {
			missing = min(missing, look.CutOff*each)
		}
		add(missing, Reply{Outcome: Unknown})
	}
	return records
}

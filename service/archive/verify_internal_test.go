package archive

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

func newVerifier() *verifier {
	return &verifier{
		levels: map[service.SKU]order.Movement{}, ids: map[string]bool{}, sold: map[unit]int64{},
		orders: map[string]string{},
	}
}

// The movements of a part are of its SKU, and each is the next, although their sum is what is carried on.
func TestMovementsOfAPart(t *testing.T) {
	for _, row := range []struct {
		name string
		from order.Movement
		list []order.Movement
		want []string
	}{
		{"in order", order.Movement{}, []order.Movement{{SKU: "a", Number: 1}, {SKU: "a", Number: 2}}, nil},
		{"on from a part", order.Movement{SKU: "a", Number: 4}, []order.Movement{{SKU: "a", Number: 5}}, nil},
		{
			"of another SKU",
			order.Movement{},
			[]order.Movement{{SKU: "b", Number: 1}, {SKU: "a", Number: 2}},
			[]string{"sequence b 1"},
		},
		{
			"one is missing",
			order.Movement{SKU: "a", Number: 4},
			[]order.Movement{{SKU: "a", Number: 6}},
			[]string{"sequence a 6"},
		},
		{
			"one is there twice",
			order.Movement{},
			[]order.Movement{{SKU: "a", Number: 1}, {SKU: "a", Number: 1}},
			[]string{"sequence a 1"},
		},
		{"the first is missing", order.Movement{}, []order.Movement{{SKU: "a", Number: 2}}, []string{"sequence a 2"}},
	} {
		v := newVerifier()
		v.levels["a"] = row.from
		sum := row.from
		for _, m := range row.list {
			sum = sum.Carry(m)
		}
		carry := order.Carry{First: sum.Number - uint64(len(row.list)) + 1, Movement: sum}
		rest := v.carry(1, carry, append(slices.Clone(row.list), order.Movement{SKU: "z", Number: 9}))
		var got []string
		for _, p := range v.Problems {
			got = append(got, fmt.Sprint(p.Kind, " ", p.SKU, " ", p.Number))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
		if len(rest) != 1 || rest[0].SKU != "z" {
			t.Errorf("%s: the rest is %v", row.name, rest)
		}
	}
}

// A present is a store that has some orders and reservations.
type present struct {
	Store
	ids []string
}

func (p present) Present(_ context.Context, ids []string) (there []string, err error) {
	for _, id := range ids {
		if slices.Contains(p.ids, id) {
			there = append(there, id)
		}
	}
	return there, nil
}

// What was sold for a reservation is accounted for by the order that it became.
func TestWhatAReservationBecameIsLookedFor(t *testing.T) {
	for _, row := range []struct {
		there []string
		want  int
	}{{[]string{"order", "other"}, 0}, {[]string{"reservation", "other"}, 1}, {[]string{"order"}, 1}, {nil, 2}} {
		v := newVerifier()
		v.orders["reservation"] = "order"
		v.sold[unit{"reservation", "a"}], v.sold[unit{"other", "a"}] = 1, 1
		if err := v.elsewhere(t.Context(), present{ids: row.there}); err != nil {
			t.Fatal(err)
		}
		if len(v.Problems) != row.want || row.want > 0 && v.Problems[0].Kind != Lost {
			t.Errorf("the store has %v: %v", row.there, v.Problems)
		}
	}
}

func TestDefaults(t *testing.T) {
	for _, row := range []struct{ batch, want int }{{0, 1000}, {7, 7}, {MaxBatch, MaxBatch}, {MaxBatch + 1, MaxBatch}} {
		zone := time.FixedZone("east", 3600)
		o := newArchiver(nil, Options{Batch: row.batch, Before: time.Date(2026, 1, 1, 1, 0, 0, 1999, zone)}).o
		if o.Batch != row.want || o.Before != time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC) {
			t.Errorf("a batch of %d is %d, want %d; before is %v", row.batch, o.Batch, row.want, o.Before)
		}
	}
}

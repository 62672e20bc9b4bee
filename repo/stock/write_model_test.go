package stock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// mini opens the store on a Redis in this process, because thousands of writes follow.
func mini(t *testing.T) *Redis {
	c := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = c.Close() })
	return NewRedis(repo.NewRedis(c))
}

// sellInAnyOrder lets holders of a lock read and write in a random order. Each may lose its lease at any moment, and
// the next one may begin: the lock is left out, only that its fences grow. So a write may come at any time after its
// read, behind and ahead of others, or never. It returns what is wrong with the answers.
func sellInAnyOrder(t *testing.T, r *Redis, script *redisscript.Script, wanted check, draw *rand.Rand) error {
	t.Helper()
	ctx, sku := t.Context(), service.SKU(uuid.NewString())
	started, err := r.Set(ctx, sku, 20, service.Condition{})
	var writes []service.Order // on their way
	// One digit and then two: who compares fences as text takes 10 for less than 9.
	fence, newest := uint64(8), uint64(0)
	for n := range 40 {
		before, wrong := r.Read(ctx, sku)
		if err := errors.Join(err, wrong); err != nil {
			t.Fatal(err)
		}
		if len(writes) == 0 || draw.IntN(2) == 0 {
			if draw.IntN(3) > 0 { // the next holder; otherwise the last one, once more
				fence++
			}
			writes = append(writes, service.Order{
				ID: fmt.Sprint(n), SKU: sku, Quantity: 1, Epoch: started.Epoch, Strategy: "s", CreatedAt: time.Now(),
				Read: before.Quantity, Remaining: before.Quantity - 1, Version: before.Version, Fence: fence,
			})
			continue
		}
		next := draw.IntN(len(writes))
		o := writes[next]
		writes = slices.Delete(writes, next, next+1)
		_, refused := r.Run(ctx, "write order", script, saleKeys(sku), writeArgs(o, wanted)...)
		after, wrong := r.Read(ctx, sku)
		if wrong != nil {
			t.Fatal(wrong)
		}
		swap, current := wanted == sameVersion, wanted == anyVersion || o.Version == before.Version
		switch {
		case refused == nil && o.Fence < newest:
			return fmt.Errorf("a write with fence %d is accepted behind one with %d", o.Fence, newest)
		case refused == nil && swap && before.Quantity != o.Read:
			return fmt.Errorf("a lost update: the sale read %d, and wrote over %d", o.Read, before.Quantity)
		case refused == nil && swap && after.Quantity+after.Sold != started.Quantity:
			return fmt.Errorf("%d are left and %d sold of %d", after.Quantity, after.Sold, started.Quantity)
		case errors.Is(refused, service.ErrStaleFence) && o.Fence >= newest:
			return fmt.Errorf("a write with the newest fence is refused: %w", refused)
		case refused != nil && current && o.Fence >= newest:
			return fmt.Errorf("a write is refused without a reason: %w", refused)
		case refused != nil && after != before:
			return errors.New("a write that is refused changes the stock")
		case refused == nil:
			newest = o.Fence
		}
	}
	return nil
}

// Whatever the order of writes, none is accepted behind a larger fence, and none with the version that it read loses an
// update. Every bug that is put into the script is found.
func TestWritesInAnyOrder(t *testing.T) {
	const rounds = 15
	for _, row := range []struct {
		bug, from, to string
		wanted        check
		want          string
	}{
		{"none", "", "", anyVersion, ""},
		{"none with the version", "", "", sameVersion, ""},
		{"no fence check", "stale(ARGV[3], fence)", "false", anyVersion, "accepted behind"},
		{"an equal fence is refused", "less(fence, seen)", "not less(seen, fence)", anyVersion, "newest fence"},
		{"fences are compared as text", "#a < #b or (#a == #b and a < b)", "a < b", anyVersion, "fence"},
		{"the fence is not kept", "if less(fence, ARGV[3]) then", "if false then", anyVersion, "accepted behind"},
		{"no comparison", "(ARGV[10] ~= version or ARGV[13] ~= quantity)", "false", sameVersion, "lost update"},
	} {
		t.Run(row.bug, func(t *testing.T) {
			source := writeScript.Source
			if row.want != "" {
				if strings.Count(source, row.from) != 1 {
					t.Fatalf("the script has no %q", row.from)
				}
				source = strings.Replace(source, row.from, row.to, 1)
			}
			r, script := mini(t), redisscript.New(source)
			var found error
			for seed := uint64(0); seed < rounds && found == nil; seed++ {
				found = sellInAnyOrder(t, r, script, row.wanted, rand.New(rand.NewPCG(seed, 1)))
			}
			if (found == nil) != (row.want == "") || found != nil && !strings.Contains(found.Error(), row.want) {
				t.Errorf("found %v, want %q", found, row.want)
			}
		})
	}
}

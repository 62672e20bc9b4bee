package strategy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // for sql.Open
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"example.com/stock/lock/redislock"
	"example.com/stock/service/strategy"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints every connection that is refused
	goleak.VerifyTestMain(m)
}

var (
	goodName = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	goodPath = regexp.MustCompile(`^/deduct_stock(_[a-z]+)*$`)
)

func TestEntriesAreWhole(t *testing.T) {
	t.Parallel()
	for _, s := range strategy.All() {
		t.Run(s.Name, func(t *testing.T) {
			if len(s.Name) > 64 || !goodName.MatchString(s.Name) || !goodPath.MatchString(s.Endpoint) {
				t.Errorf("%s at %s cannot be a label, a column and a path", s.Name, s.Endpoint)
			}
			for language, text := range map[string]strategy.Text{"summary": s.Summary, "caveat": s.Caveat} {
				if text.EN == "" || text.ZH == "" || strings.ContainsAny(text.EN+text.ZH, "\n|") {
					t.Errorf("%s %+v must be one line in both languages, and fit in a table", language, text)
				}
			}
			if strings.HasSuffix(s.Summary.EN, ".") || strings.HasSuffix(s.Summary.ZH, "。") {
				t.Errorf("summary %+v ends with a full stop", s.Summary)
			}
			if asks := s.Lock != nil && len(s.Needs) > 0; asks != (s.RoundTrips > 0) {
				t.Errorf("%d round trips: what has a lock on a server has some, and nothing else", s.RoundTrips)
			}
			if (s.Lock == nil) == (s.Seller == nil) {
				t.Error("it must have a Lock or a Seller, and not both")
			}
		})
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, s := range strategy.All() {
		if found, err := strategy.Lookup(s.Name); err != nil || found.Endpoint != s.Endpoint {
			t.Errorf("Lookup(%q) = %s, %v", s.Name, found.Endpoint, err)
		}
	}
	for _, wrong := range []string{"", "nun", "None", "none ", "/deduct_stock"} {
		_, err := strategy.Lookup(wrong)
		if err == nil {
			t.Fatalf("Lookup(%q) found something", wrong)
		}
		for _, s := range strategy.All() {
			if !strings.Contains(err.Error(), s.Name) {
				t.Errorf("Lookup(%q): %v, which does not list %s", wrong, err, s.Name)
			}
		}
	}
}

// With a fixed lease time each holder has a lease of its own: under lock.HandOver several in turn would share one.
func TestAFixedLeaseTimeIsEachHoldersOwn(t *testing.T) {
	all, servers := strategy.All(), dead(t)
	s := all[slices.IndexFunc(all, func(s strategy.Strategy) bool { return s.Name == "redis-watchdog" })]
	for _, fixed := range []time.Duration{0, time.Second} {
		servers.LeaseTime = fixed
		if _, plain := s.Lock(servers).(*redislock.Watchdog); plain != (fixed > 0) {
			t.Errorf("lease time %v: plain %v", fixed, plain)
		}
	}
}

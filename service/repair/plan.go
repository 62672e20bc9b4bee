// Package repair mends the books of SKUs that do not balance. [Make] compares counters, movements, reservations and
// orders, and writes nothing: its Plan says for each SKU what was read and which adjustment would mend it. [Apply]
// writes the adjustments, each once, and only if the books of the SKU have not moved since.
//
// Which side is believed, and when a person must choose, is in decide.go and in docs/adr/0030.
package repair

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

const (
	// Version is the version of a plan file.
	Version = 1
	// MaxPlan is the largest plan file, in bytes.
	MaxPlan = 16 << 20
	// maxAmount limits the numbers of a plan, so that no sum of them overflows.
	maxAmount = 1 << 53
)

// A Place identifies a store. A plan is for one store only.
type Place struct {
	Name   string `json:"name"`   // "redis" or "mysql"
	Origin string `json:"origin"` // id of its data; see service.Origin
}

// A Plan is what the books of a store need. Its ID is a digest of all other fields: it finds edited numbers, and is no
// protection against a person who computes the digest again.
type Plan struct {
	Version int       `json:"version"`
	ID      string    `json:"plan"`
	Store   Place     `json:"store"`
	Made    time.Time `json:"made_at"`
	SKUs    []Mend    `json:"skus"`
}

// An Amounts has the counters of a SKU, or the change of them.
type Amounts struct {
	Received  int64 `json:"received"`
	Available int64 `json:"available"`
	Reserved  int64 `json:"reserved"`
	Sold      int64 `json:"sold"`
}

// Books are the numbers that were read of one SKU, as of one movement.
type Books struct {
	SKU       service.SKU `json:"sku"`
	Counters  Amounts     `json:"counters"`
	Number    uint64      `json:"number"`    // of the last movement, by the counters
	Movements Amounts     `json:"movements"` // their sum
	Last      uint64      `json:"last"`      // number of the last movement that is there; 0: none
	Damage    []string    `json:"damage"`    // kinds of errors in the movements; see order.Imbalance
	Held      int64       `json:"held"`      // units in open reservations
	Ordered   *int64      `json:"ordered"`   // units in placed orders; nil: unknown, because some were archived
}

// A Mend is the part of a Plan about one SKU.
type Mend struct {
	Books
	Options []Option `json:"options"` // empty: no adjustment can mend the books
	Choice  string   `json:"choice"`  // the option that needs no person to choose it; "": a person must choose
}

// An Option is one way to mend the books of a SKU.
type Option struct {
	Believe  string  `json:"believe"`  // its name; see decide.go
	Counters Amounts `json:"counters"` // as they will be
	Adjust   Amounts `json:"adjust"`   // the movement, which makes the sum of the movements equal to the counters
}

// A PlanError reports a file that is no plan for this store.
type PlanError struct {
	Code   string // one of the codes below
	Values []any  // pairs of names and values, for the text of the code
}

// Codes of a PlanError.
const (
	TooLarge     = "too-large"
	NotJSON      = "not-json"
	WrongVersion = "version"
	Edited       = "edited"
	OtherStore   = "store"
	BadSKU       = "sku"
	BadNumber    = "number"
)

func (e *PlanError) Error() string {
	return fmt.Sprint("the plan cannot be used: ", e.Code, " ", e.Values)
}

func refuse(code string, values ...any) error { return &PlanError{code, values} }

// digest returns the ID that p must have.
func (p Plan) digest() string {
	p.ID = ""
	text, _ := json.Marshal(p) // numbers and texts: it cannot fail
	sum := sha256.Sum256(text)
	return "repair-" + hex.EncodeToString(sum[:8])
}

// Parse reads a plan file. Errors are PlanErrors, except for those of r.
func Parse(r io.Reader) (p Plan, err error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxPlan+1))
	switch {
	case err != nil:
		return Plan{}, err
	case len(text) > MaxPlan:
		return Plan{}, refuse(TooLarge, "most", MaxPlan)
	}
	var of struct{ Version int } // first, because another version may have other fields
	if err := json.Unmarshal(text, &of); err != nil {
		return Plan{}, refuse(NotJSON, "why", err.Error())
	}
	if of.Version != Version {
		return Plan{}, refuse(WrongVersion, "version", of.Version, "known", Version)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Plan{}, refuse(NotJSON, "why", err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return Plan{}, refuse(NotJSON, "why", "more follows the plan")
	}
	seen := make(map[service.SKU]bool, len(p.SKUs))
	for i, m := range p.SKUs {
		if _, err := service.ParseSKU(string(m.SKU)); err != nil || seen[m.SKU] {
			return Plan{}, refuse(BadSKU, "n", i+1)
		}
		seen[m.SKU] = true
		if !m.bounded() {
			return Plan{}, refuse(BadNumber, "sku", m.SKU, "most", maxAmount)
		}
		// Somebody who computes the digest again can still not write what does not follow from the numbers.
		if again := decide(m.Books); !reflect.DeepEqual(again, m) {
			return Plan{}, refuse(Edited, "plan", p.ID)
		}
	}
	if p.ID != p.digest() {
		return Plan{}, refuse(Edited, "plan", p.ID)
	}
	return p, nil
}

// bounded reports whether all numbers of b are at most maxAmount.
func (b Books) bounded() bool {
	numbers := []int64{b.Held, int64(min(b.Number, 1<<62)), int64(min(b.Last, 1<<62))}
	for _, a := range []Amounts{b.Counters, b.Movements} {
		numbers = append(numbers, a.Received, a.Available, a.Reserved, a.Sold)
	}
	if b.Ordered != nil {
		numbers = append(numbers, *b.Ordered)
	}
	for _, n := range numbers {
		if n > maxAmount || n < -maxAmount {
			return false
		}
	}
	return true
}

func amounts(l order.Level) Amounts { return Amounts{l.Received, l.Available, l.Reserved, l.Sold} }

func (a Amounts) level(number uint64) order.Level {
	return order.Level{
		Received: a.Received, Available: a.Available, Reserved: a.Reserved, Sold: a.Sold, Number: number,
	}
}

func (a Amounts) less(b Amounts) Amounts {
	return Amounts{a.Received - b.Received, a.Available - b.Available, a.Reserved - b.Reserved, a.Sold - b.Sold}
}

// adds reports whether received = available + reserved + sold, of counters or of a change.
func (a Amounts) adds() bool { return a.Received == a.Available+a.Reserved+a.Sold }

// holds reports whether a obeys the law of counters.
func (a Amounts) holds() bool { return a.level(0).Check() == nil }

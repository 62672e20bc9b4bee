// Package access says who is asking and what he may do: it verifies a bearer token, and yields a subject and scopes.
//
// It knows no route. Package handler compares the scopes with those of its table of routes.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Scope opens the routes that need it.
type Scope string

// The scopes that a token may have.
const (
	OrdersOwn  Scope = "orders:own" // for the token's own customer
	OrdersAny  Scope = "orders:any" // for every customer
	StockRead  Scope = "stock:read"
	StockWrite Scope = "stock:write"
	RelayWrite Scope = "relay:write"
	LocksEvict Scope = "locks:evict"
)

// Lab is the scope of lab mode, which switches protections off. No token has it, only the operator.
const Lab Scope = "lab"

// Scopes returns the scopes that a token may have.
func Scopes() []Scope {
	return []Scope{OrdersOwn, OrdersAny, StockRead, StockWrite, RelayWrite, LocksEvict}
}

// ForOperators reports whether a scope opens routes for operators. They need the operator's token even where customers
// are believed.
func (s Scope) ForOperators() bool {
	return s == StockWrite || s == RelayWrite || s == LocksEvict || s == Lab
}

// A Caller is who sends a request.
type Caller struct {
	// Subject is the customer that the token proves; "": it proves none.
	Subject string
	scopes  []Scope
	all     bool
}

// Believed returns the caller of a request that proved nothing, where that is not asked for. He is the customer that
// he says, and may do whatever is not for operators.
func Believed() Caller { return Caller{scopes: []Scope{OrdersOwn, OrdersAny, StockRead}} }

// Operator returns the caller with one of the static tokens, who may do everything.
func Operator() Caller { return Caller{all: true} }

// May reports whether the caller has at least one of the scopes.
func (c Caller) May(scopes ...Scope) bool {
	return c.all || slices.ContainsFunc(scopes, func(s Scope) bool { return slices.Contains(c.scopes, s) })
}

// A Door finds out who sends a request.
type Door struct {
	operators func() Operators
	tokens    *Tokens
}

// Operators are the static tokens, as sums. Several are for their rotation.
type Operators [][sha256.Size]byte

// NewOperators returns the sums of static tokens.
func NewOperators(tokens []string) (o Operators) {
	for _, token := range tokens {
		o = append(o, sha256.Sum256([]byte(token)))
	}
	return o
}

// Static returns a function that always returns the sums of the same tokens.
func Static(tokens ...string) func() Operators {
	sums := NewOperators(tokens)
	return func() Operators { return sums }
}

// NewDoor makes a Door. operators returns the static tokens, and is called for each token. If tokens is nil, customers
// are believed, and only operators must prove anything.
func NewDoor(operators func() Operators, tokens *Tokens) *Door { return &Door{operators, tokens} }

// AsksCustomers reports whether customers need a token.
func (d *Door) AsksCustomers() bool { return d.tokens != nil }

// Err returns ErrKeys while customers need tokens and no key is known to verify them with.
func (d *Door) Err() error {
	if d.tokens == nil {
		return nil
	}
	return d.tokens.Err()
}

// HasOperators reports whether there are static tokens.
func (d *Door) HasOperators() bool { return len(d.operators()) > 0 }

// Caller returns who sends a request with that header. The error matches ErrNoToken, ErrTwoTokens, ErrToken or ErrKeys.
func (d *Door) Caller(header http.Header) (Caller, error) {
	token, err := bearer(header)
	if err != nil {
		return Caller{}, err
	}
	sum := sha256.Sum256([]byte(token))
	if d.isOperator(sum) {
		return Operator(), nil
	}
	if d.tokens == nil {
		return Caller{}, refused("unknown")
	}
	return d.tokens.verify(token, sum, time.Now())
}

// isOperator compares with every static token, in constant time. Comparing sums hides the tokens' lengths, too.
func (d *Door) isOperator(sum [sha256.Size]byte) bool {
	found := 0
	for _, operator := range d.operators() {
		found |= subtle.ConstantTimeCompare(sum[:], operator[:])
	}
	return found == 1
}

// MaxToken is the length of the longest token that is read.
const MaxToken = 8 << 10

// bearer returns the token of the header Authorization. Two headers are refused, because a proxy may have looked at
// the other one.
func bearer(header http.Header) (string, error) {
	values := header.Values("Authorization")
	switch len(values) {
	case 0:
		return "", ErrNoToken
	case 1:
	default:
		return "", ErrTwoTokens
	}
	if len(values[0]) > MaxToken {
		return "", refused("long", "most", MaxToken)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", ErrNoToken
	}
	return token, nil
}

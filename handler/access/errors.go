package access

import "errors"

var (
	// ErrNoToken: the request has no token.
	ErrNoToken = errors.New("no token")
	// ErrTwoTokens: the request has more than one header Authorization.
	ErrTwoTokens = errors.New("more than one token")
	// ErrToken: the token is not valid. It comes as a TokenError.
	ErrToken = errors.New("the token is not valid")
	// ErrKeys: the token cannot be verified, because its key is unknown and the issuer does not answer.
	ErrKeys = errors.New("the keys of the issuer cannot be read")
)

// A TokenError is an ErrToken with a reason. Nothing in it comes from the token.
type TokenError struct {
	Reason string // a code, for texts in two languages
	Values []any  // name, value, ... of that text
}

func (e *TokenError) Error() string        { return ErrToken.Error() + ": " + e.Reason }
func (e *TokenError) Is(target error) bool { return target == ErrToken }

func refused(reason string, values ...any) error { return &TokenError{reason, values} }

// Reasons returns the codes of all reasons.
func Reasons() []string {
	return []string{
		"unknown", "long", "malformed", "algorithm", "type", "key", "signature", "expired", "no-expiry", "early",
		"claim", "issuer", "audience", "customer",
	}
}

// NoCustomer returns the error for a valid token whose subject cannot be a customer.
func NoCustomer() error { return refused("customer") }

package access

import (
	"crypto/sha256"
	"strconv"
	"testing"
)

// However many valid tokens come, only some are remembered, and the latest are among them.
func TestRememberedTokensAreBounded(t *testing.T) {
	tokens := NewTokens(Rule{}, nil)
	for i := range 5 * maxVerified {
		sum := sha256.Sum256([]byte(strconv.Itoa(i)))
		tokens.remember(sum, verified{})
		if n := len(tokens.verified) + len(tokens.previous); n > 2*maxVerified {
			t.Fatalf("%d tokens are remembered", n)
		}
		if _, ok := tokens.remembered(sum); !ok {
			t.Fatalf("token %d is forgotten at once", i)
		}
	}
	if _, ok := tokens.remembered(sha256.Sum256([]byte("0"))); ok {
		t.Error("the first token is remembered for ever")
	}
}

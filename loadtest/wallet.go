package loadtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// A Wallet has a token for each customer, and makes it when it is first asked for. It is safe for concurrent use.
type Wallet struct {
	issue  func(ctx context.Context, customer string) (string, error)
	places chan struct{} // bounds how many are made at once

	mu     sync.Mutex
	tokens map[string]*token
}

type token struct {
	got  chan struct{} // closed when text or err is set
	text string
	err  error
}

// CustomerVariable is the name of the variable with the customer's name.
const CustomerVariable = "STOCK_CUSTOMER"

const (
	walletPlaces = 4
	walletLimit  = 30 * time.Second
	maxToken     = 8 << 10 // as long as the service reads
)

// NewWallet returns a Wallet that runs a shell command for each customer, with his name in the environment. The command
// prints his token.
func NewWallet(command string) *Wallet { return newWallet(commandIssuer{command, walletLimit}.issue) }

// NewSigner returns a Wallet that signs the tokens itself, with the secret of a service for development.
func NewSigner(secret string) *Wallet {
	return newWallet(func(_ context.Context, customer string) (string, error) {
		return SignToken(secret, customer, "")
	})
}

func newWallet(issue func(context.Context, string) (string, error)) *Wallet {
	return &Wallet{issue: issue, places: make(chan struct{}, walletPlaces), tokens: make(map[string]*token)}
}

// tokenLife is longer than any run.
const tokenLife = 7 * 24 * time.Hour

// SignToken returns a token of subject with these scopes, separated by spaces, signed by HS256.
func SignToken(secret, subject, scopes string) (string, error) {
	claims := jwt.MapClaims{"sub": subject, "exp": time.Now().Add(tokenLife).Unix()}
	if scopes != "" {
		claims["scope"] = scopes
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
}

// Token returns the token of a customer. The error of a command is a PlanError. An error is remembered like a token: a
// command that fails is not run again.
func (w *Wallet) Token(ctx context.Context, customer string) (string, error) {
	w.mu.Lock()
	t, known := w.tokens[customer]
	if !known {
		t = &token{got: make(chan struct{})}
		w.tokens[customer] = t
	}
	w.mu.Unlock()
	if !known {
		w.places <- struct{}{}
		t.text, t.err = w.issue(context.WithoutCancel(ctx), customer)
		<-w.places
		close(t.got)
	}
	select {
	case <-t.got:
		return t.text, t.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// A commandIssuer runs a command for at most limit.
type commandIssuer struct {
	command string
	limit   time.Duration
}

func (i commandIssuer) issue(ctx context.Context, customer string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, i.limit)
	defer cancel()
	cmd := shell(ctx, i.command, time.Second)
	cmd.Env = append(os.Environ(), CustomerVariable+"="+customer)
	out, said := &bounded{}, &bounded{}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	switch {
	case ctx.Err() != nil:
		return "", wrong("token-command", "token-late", "customer", customer, "limit", i.limit.String())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		why := err.Error()
		if first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); first != "" {
			why += ": " + first
		}
		return "", wrong("token-command", "token-failed", "customer", customer, "why", why)
	case text == "" || len(text) > maxToken || strings.ContainsFunc(text, invisible):
		// What it printed is not shown, because it may be a token and something else.
		return "", wrong("token-command", "token-none", "customer", customer, "most", maxToken)
	}
	return text, nil
}

func invisible(r rune) bool { return r <= ' ' || r > '~' }

// A bounded is the beginning of an output; the rest is read and left out.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	_, err := b.Buffer.Write(p[:min(len(p), max(0, 2*maxToken-b.Len()))])
	return len(p), err
}

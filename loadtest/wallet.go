package loadtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Wallet has a token for each customer. It runs a shell command that prints one, once for each, with the customer's
// name in the environment. It is safe for concurrent use.
type Wallet struct {
	command string
	places  chan struct{} // bounds how many commands run at once
	limit   time.Duration

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

func NewWallet(command string) *Wallet {
	return &Wallet{
		command: command, places: make(chan struct{}, walletPlaces), limit: walletLimit,
		tokens: make(map[string]*token),
	}
}

// Token returns the token of a customer. The error is a PlanError. It is remembered like a token: a command that fails
// is not run again.
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
		t.text, t.err = w.run(context.WithoutCancel(ctx), customer)
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

func (w *Wallet) run(ctx context.Context, customer string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", w.command)
	cmd.Env = append(os.Environ(), CustomerVariable+"="+customer)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, said := &bounded{}, &bounded{}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	switch {
	case ctx.Err() != nil:
		return "", wrong("token-command", "token-late", "customer", customer, "limit", w.limit.String())
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

// Command stock sells stock under every lock there is: the service, its load generator and its demonstration.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; a second one, after stop, ends the process as usual.
	context.AfterFunc(ctx, stop)
	cobra.EnableCommandSorting = false // in --help: the order in which a newcomer needs them
	err := rootCommand().ExecuteContext(ctx)
	var status exitError
	switch {
	case err == nil:
		return
	case errors.As(err, &status):
		if status.err != nil {
			fmt.Fprintln(os.Stderr, "stock:", status.err)
		}
		os.Exit(status.code)
	default:
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

// An exitError ends the program with a status of its own; err may be nil if all has been said.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.code, e.err) }
func (e exitError) Unwrap() error { return e.err }

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// untilUnread makes a command that has started servers end in order when nobody reads on what it writes, as in `stock demo | head`. Without
// it SIGPIPE would end the program in mid-step, and its temporary folder would stay. The signal itself cannot be what cancels: it comes for
// every connection that breaks, too. It returns what undoes it.
func untilUnread(cmd *cobra.Command) (undo func()) {
	file, ok := cmd.OutOrStdout().(*os.File)
	if !ok {
		return func() {}
	}
	caught := make(chan os.Signal, 1) // not ignored: that would be inherited by every server
	signal.Notify(caught, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(cmd.Context())
	cmd.SetContext(ctx)
	cmd.SetOut(&readOutput{file, cancel})
	return func() {
		cancel()
		signal.Stop(caught)
	}
}

// A readOutput is a standard output that calls unread once nobody reads it.
type readOutput struct {
	file   *os.File
	unread func()
}

func (o *readOutput) Write(text []byte) (int, error) {
	n, err := o.file.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		o.unread()
	}
	return n, err
}

// Fd is for who wants to know whether it is a terminal.
func (o *readOutput) Fd() uintptr { return o.file.Fd() }

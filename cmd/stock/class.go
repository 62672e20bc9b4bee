package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/lab/class"
)

// A lesson holds the flags of the command.
type lesson struct {
	voice
	addr, bind, dir string
	replay, export  string
}

func classCommand(v voice) *cobra.Command {
	l := lesson{voice: v}
	cmd := &cobra.Command{
		Use:  "class",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer untilUnread(cmd)()
			if err := l.check(cmd.Flags()); err != nil {
				return err
			}
			if l.replay != "" {
				return l.show(cmd.Context(), cmd.OutOrStdout())
			}
			return l.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.addr, "addr", "127.0.0.1:0", "")
	flags.StringVar(&l.bind, "bind", "", "")
	flags.StringVar(&l.dir, "dir", "out/class", "")
	flags.StringVar(&l.replay, "replay", "", "")
	flags.StringVar(&l.export, "export", "", "")
	return cmd
}

func (l *lesson) check(flags *pflag.FlagSet) error {
	switch {
	case l.export != "" && l.replay == "":
		return failure("wrong.export-replay")
	case l.replay != "" && l.bind != "":
		return failure("wrong.bind-replay")
	}
	return checkOutput(flags)
}

// show plays a file.
func (l *lesson) show(ctx context.Context, out io.Writer) error {
	file, err := os.Open(l.replay)
	if err != nil {
		return wrong("replay", err)
	}
	recording, err := class.ReadAny(file, string(l.voice))
	if err = errors.Join(err, file.Close()); err != nil {
		return wrong("replay", fmt.Errorf("%s: %w", l.replay, err))
	}
	if l.export != "" {
		if err := writeFile(l.export, recording.WriteHTML); err != nil {
			return wrong("export", err)
		}
		return nil
	}
	player, err := class.Replay(recording, l.addr)
	if err != nil {
		return wrong("addr", err)
	}
	fmt.Fprintf(out, "%s\n  %s\n", l.say("class.again"), player.URL())
	<-ctx.Done()
	return player.Close()
}

func (l *lesson) run(ctx context.Context, out, errs io.Writer) (err error) {
	c, err := class.Start(ctx, class.Options{
		Want: demoServers(), Progress: l.showServers(errs, true), Dir: l.dir, Addr: l.addr, Bind: l.bind,
		Lang: string(l.voice),
	})
	if err != nil {
		if ctx.Err() != nil {
			return exitError{exitInterrupted, failure("interrupted.stopped")}
		}
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := l.announce(out, errs, c); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// announce prints the addresses. The picture is for people: a file does not get one.
func (l *lesson) announce(out, errs io.Writer, c *class.Class) error {
	fmt.Fprintf(out, "\n%s\n  %s\n", l.say("class.wall"), c.URL())
	if join := c.JoinURL(); join != "" {
		fmt.Fprintf(out, "\n%s\n  %s\n", l.say("class.students"), join)
		fmt.Fprintln(errs, l.say("class.warning"))
		if width(out) > 0 {
			return class.WriteQR(out, join)
		}
	}
	return nil
}

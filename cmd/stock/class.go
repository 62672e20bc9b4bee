package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"example.com/stock/class"
)

const classLong = `Class starts Redis, ZooKeeper, MariaDB, three instances of the service and nginx on this computer,
and a page for the projector. Every request is seen on its way: it waits, reads, thinks and writes. Hold one, let
another past; freeze an instance past its lease; kill Redis. What the store says of sold, oversold and lost stands
above it in large figures. Nothing is simulated: instances tell each step.

The page opens at the address that is printed, on this computer only; the part behind # is its key. Press ? there for
the keys and O for the scenes. With --bind students join with their phones, by the QR code: they can buy and vote, and
nothing else.

Each run is kept in a file. It goes on until Ctrl-C, and leaves nothing running.`

// A lesson holds the flags of the command.
type lesson struct {
	addr, bind, dir, lang string
	replay, export        string
}

func classCommand() *cobra.Command {
	var l lesson
	cmd := &cobra.Command{
		Use:   "class",
		Short: "Show it live to a class: every request on its way, on a page for the projector",
		Long:  classLong,
		Example: "  stock class\n  stock class --bind 192.168.1.20:8100    # and students join with their phones\n" +
			"  stock class --addr 127.0.0.1:8099 --lang zh --dir \"\"\n" +
			"  stock class --replay out/class/RUN.jsonl --export run.html",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer untilUnread(cmd)()
			if err := checkLanguage(l.lang); err != nil {
				return err
			}
			if err := l.check(); err != nil {
				return err
			}
			if l.replay != "" {
				return l.show(cmd.Context(), cmd.OutOrStdout())
			}
			return l.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.addr, "addr", "127.0.0.1:0", "loopback address of the page; port 0: a free one")
	flags.StringVar(&l.bind, "bind", "", "address of the students' page, such as 192.168.1.20:8100; empty: none")
	flags.StringVar(&l.dir, "dir", "out/class", "folder in which each run is kept as a file; empty: none is")
	flags.StringVar(&l.replay, "replay", "", "show the run in this file again, and start nothing else")
	flags.StringVar(&l.export, "export", "", "with --replay: write it as one HTML file that needs no server, and end")
	languageFlag(cmd, &l.lang)
	return cmd
}

func (l *lesson) check() error {
	switch {
	case l.export != "" && l.replay == "":
		return errors.New("--export: is for --replay FILE")
	case l.replay != "" && l.bind != "":
		return errors.New("--bind: nobody can buy in a run that is over (--replay)")
	}
	if err := checkFile(l.export); err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	return nil
}

// show plays a file.
func (l *lesson) show(ctx context.Context, out io.Writer) error {
	file, err := os.Open(l.replay)
	if err != nil {
		return fmt.Errorf("--replay: %w", err)
	}
	recording, err := class.ReadRecording(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("--replay %s: %w", l.replay, err)
	}
	recording.Lang = l.lang
	if l.export != "" {
		if err := writeFile(l.export, recording.WriteHTML); err != nil {
			return fmt.Errorf("--export: %w", err)
		}
		return nil
	}
	player, err := class.Replay(recording, l.addr)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	fmt.Fprintf(out, "The run again, for this computer only (Ctrl-C ends it):\n  %s\n", player.URL())
	<-ctx.Done()
	return player.Close()
}

func (l *lesson) run(ctx context.Context, out, errs io.Writer) (err error) {
	c, err := class.Start(ctx, class.Options{
		Want: demoServers(), Progress: showServers(errs, true), Dir: l.dir, Addr: l.addr, Bind: l.bind, Lang: l.lang,
	})
	if err != nil {
		if ctx.Err() != nil {
			return exitError{exitInterrupted, errors.New("interrupted; all that was started is stopped")}
		}
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := l.say(out, errs, c); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// say prints the addresses. The picture is for people: a file does not get one.
func (l *lesson) say(out, errs io.Writer, c *class.Class) error {
	fmt.Fprintf(out, "\nThe wall, for this computer only (Ctrl-C ends it all):\n  %s\n", c.URL())
	if join := c.JoinURL(); join != "" {
		fmt.Fprintf(out, "\nStudents join at\n  %s\n", join)
		fmt.Fprintln(
			errs, "Warning: everybody in this network can reach the students' page, and read along: there is no TLS.",
		)
		if width(out) > 0 {
			return class.WriteQR(out, join)
		}
	}
	return nil
}

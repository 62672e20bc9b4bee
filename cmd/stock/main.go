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

	"example.com/stock/app"
	"example.com/stock/words"
)

// version is set by the linker (-X main.version=...) for release builds.
var version = "dev"

// The exit statuses of several commands, besides 0 and 1.
const (
	exitTarget      = 2
	exitVerdict     = 3
	exitUndecided   = 4
	exitExpectation = 5
	exitInterrupted = 130 // as shells say of a program that SIGINT ended
)

// exitSkipped is the exit status if something was skipped that must not be.
const exitSkipped = 4

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal starts an orderly end; a second one, after stop, ends the process as usual.
	context.AfterFunc(ctx, stop)
	cobra.EnableCommandSorting = false // --help lists commands in the order in which a newcomer needs them
	v := language(os.Args[1:], os.Getenv)
	err := rootCommand(v).ExecuteContext(ctx)
	var status exitError
	switch {
	case err == nil:
		return
	case errors.As(err, &status):
		if status.err != nil {
			fmt.Fprintln(os.Stderr, "stock:", v.in(words.Of(status.err)))
		}
		os.Exit(status.code)
	default:
		fmt.Fprintln(os.Stderr, "stock:", v.in(words.Of(err)))
		os.Exit(1)
	}
}

// An exitError ends the program with its own exit status. err is nil if everything was printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.code, e.err) }
func (e exitError) Unwrap() error { return e.err }

func rootCommand(v voice) *cobra.Command {
	root := &cobra.Command{
		Use:   "stock",
		Short: "Sell stock from several instances: see the over-selling race, and every lock that stops it",
		Long: `stock is an inventory service that can deduct stock under every kind of lock: none, a mutex,
Redis, ZooKeeper, MySQL, or an atomic write. It shows the over-selling race and its fixes on real servers.

Start with:  stock demo`,
		Example: `  # the race and its fixes, on this computer
  stock demo

  # one of the ways in which locks fail, made to happen
  stock lab run holder-frozen-past-lease

  # an instance of the service, and load on it
  stock serve --admin-token demo
  stock load --url http://localhost:8088 --admin-token demo --strategies none,atomic

  # does your own service oversell?
  stock load --url http://localhost:9000 --mapping mapping.yaml

  # a task that must run once, although every machine starts it
  stock lock redis-watchdog nightly --no-wait -- ./nightly.sh`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version + " " + app.Commit(),
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"See it:", []*cobra.Command{demoCommand(v), classCommand(v), strategiesCommand(v), labCommand(v)}},
		{"Load a service, and judge it:", []*cobra.Command{loadCommand(v), verdictCommand(v), reportCommand(v)}},
		{"Use the locks:", []*cobra.Command{lockCommand(v)}},
		{"Run the service:", []*cobra.Command{
			serveCommand(), relayCommand(), configCommand(), migrateCommand(v), auditCommand(), healthcheckCommand(),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, command := range group.commands {
			command.GroupID = group.title
			root.AddCommand(command)
		}
	}
	v.addLanguage(root)
	return root
}

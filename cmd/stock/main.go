// Command stock sells stock under every lock there is: the service, its load generator and its demonstration.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"example.com/stock/app"
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
	root := rootCommand(v)
	root.SetOut(&screen{file: os.Stdout})
	root.SetErr(&screen{file: os.Stderr})
	status, err := ended(root.ExecuteContext(ctx))
	if err != nil {
		fmt.Fprintln(root.ErrOrStderr(), "stock:", v.message(err))
	}
	os.Exit(status)
}

func rootCommand(v voice) *cobra.Command {
	root := parent("stock")
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = version + " " + app.Commit()
	for _, group := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{"see", []*cobra.Command{demoCommand(v), classCommand(v), strategiesCommand(v), labCommand(v)}},
		{"load", []*cobra.Command{
			loadCommand(v), checkoutCommand(v), verdictCommand(v), reportCommand(v), engineCommand(v),
		}},
		{"locks", []*cobra.Command{lockCommand(v)}},
		{"serve", []*cobra.Command{
			serveCommand(), configCommand(), migrateCommand(v), healthcheckCommand(),
			ordersCommand(), newCommand(v),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: phrases.Say("group." + group.id).In(string(v))})
		for _, command := range group.commands {
			command.GroupID = group.id
			root.AddCommand(command)
		}
	}
	v.addLanguage(root)
	v.explain(root)
	return root
}

package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"example.com/stock/handler"
)

// version is set by the linker (-X main.version=...) for release builds.
var version = "dev"

func rootCommand() *cobra.Command {
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
		Version:       buildVersion("").Version + " " + buildVersion("").Commit,
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"See it:", []*cobra.Command{demoCommand(), strategiesCommand(), labCommand()}},
		{"Load a service, and judge it:", []*cobra.Command{loadCommand(), verdictCommand(), reportCommand()}},
		{"Use the locks:", []*cobra.Command{lockCommand()}},
		{"Run the service:", []*cobra.Command{serveCommand(), configCommand(), migrateCommand(), healthcheckCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, command := range group.commands {
			command.GroupID = group.title
			root.AddCommand(command)
		}
	}
	return root
}

// buildVersion is what is known of this binary.
func buildVersion(instance string) handler.Version {
	v := handler.Version{Version: version, Commit: "unknown", Go: runtime.Version(), Instance: instance}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}

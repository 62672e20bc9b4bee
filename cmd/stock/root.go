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
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       buildVersion("").Version + " " + buildVersion("").Commit,
	}
	root.AddCommand(
		demoCommand(),
		loadCommand(),
		verdictCommand(),
		reportCommand(),
		strategiesCommand(),
		serveCommand(),
		lockCommand(),
		labCommand(),
		configCommand(),
		migrateCommand(),
		healthcheckCommand(),
	)
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

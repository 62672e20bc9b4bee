package main

import (
	"github.com/spf13/cobra"

	"example.com/stock/app"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one instance of the service",
		Long: `Run one instance of the service.

It starts whether or not its servers are up: strategies whose server is missing answer 503 with the reason, and
work as soon as it is there. On SIGTERM /readyz fails first, then nobody else is let in, requests in flight are
finished and held locks released. A second signal ends the process at once.

There are two listeners. --addr is for customers; /metrics, /v1/locks and the lab's /v1/lab are on --admin-addr alone,
which is for operators and Prometheus and by default reached from this computer only. Several instances on one computer
need an address each.`,
		Example: "  stock serve\n" +
			"  stock serve --addr :8089 --admin-addr 127.0.0.1:9091 --instance app-2 --redis-addrs redis:6379\n" +
			"  STOCK_MYSQL_DSN='stock:secret@tcp(db:3306)/stock' stock serve --config stock.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags())
			if err != nil {
				return err
			}
			lines := app.NewLogWriter(cmd.ErrOrStderr())
			defer lines.Close()
			log := app.NewLogger(lines, cfg)
			app.LogRedis(log)
			a, err := app.New(cfg, version, log)
			if err != nil {
				return err
			}
			a.MeasureLog(lines)
			return a.Run(cmd.Context())
		},
	}
	app.AddFlags(cmd.Flags())
	return cmd
}

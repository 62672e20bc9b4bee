// Package cmd has the commands of the order service.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/spf13/cobra"

	"example.com/stock/orders/app"
	"example.com/stock/orders/config"
	"example.com/stock/orders/repo"
)

// Exit statuses.
const (
	failed     = 1
	misused    = 2
	unbalanced = 3
)

// A statusError is an error with an exit status of its own.
type statusError struct {
	error
	status int
}

// Status returns the exit status for what Command has returned.
func Status(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[statusError](err); ok {
		return e.status
	}
	return failed
}

// Command returns the tree of commands. Without a version it is that which the compiler has found in the repository.
func Command(version string) *cobra.Command {
	if about, ok := debug.ReadBuildInfo(); ok && version == "" {
		version = about.Main.Version
	}
	root := &cobra.Command{
		Use: "orders", Short: "Sells carts from a stock that never goes below zero",
		Long: "Sells carts from a stock that never goes below zero.\n\n" +
			"Settings come from a file (--config, ORDERS_CONFIG or orders.yaml) and from the environment, where\n" +
			"ORDERS_MYSQL_DSN is mysql.dsn. \"orders config\" prints them all.\n\n" +
			"Exit status: 0 if all is well, 1 after an error, 2 if the command line is wrong, 3 if the books do\n" +
			"not balance.",
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
	}
	root.PersistentFlags().String("config", "", "the file with the settings")
	root.AddCommand(serveCommand(version), migrateCommand(), auditCommand(), outboxCommand(), configCommand(),
		tokenCommand(), healthCommand(), versionCommand(version))
	misuse(root)
	return root
}

// misuse gives errors of the command line their status.
func misuse(c *cobra.Command) {
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return statusError{err, misused} })
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return statusError{err, misused}
		}
		return nil
	}
	if c.RunE == nil {
		c.RunE = func(c *cobra.Command, _ []string) error {
			_ = c.Help() // it goes to standard output
			return statusError{fmt.Errorf("%s needs a command", c.CommandPath()), misused}
		}
	}
	for _, child := range c.Commands() {
		misuse(child)
	}
}

func load(c *cobra.Command) (*config.Config, []config.Setting, error) {
	file, err := c.Flags().GetString("config")
	if err != nil {
		return nil, nil, err
	}
	return config.Load(file)
}

// withStore runs a command that only needs the database.
func withStore(do func(*cobra.Command, *repo.Store, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		settings, _, err := load(c)
		if err != nil {
			return err
		}
		if err := settings.NeedsDatabase(); err != nil {
			return err
		}
		store, err := repo.Open(settings.MySQL.DSN, repo.Options{Connections: 2})
		if err != nil {
			return err
		}
		return errors.Join(do(c, store, args), store.Close())
	}
}

func serveCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "Serve until SIGTERM or SIGINT; a second one ends it at once", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, _, err := load(c)
			if err != nil {
				return err
			}
			if err := settings.NeedsAll(); err != nil {
				return err
			}
			if err := setLog(settings); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // from now on a signal does what it does by default
			a, err := app.Open(ctx, settings, version)
			if err != nil {
				return err
			}
			return a.Run(ctx)
		},
	}
}

func setLog(c *config.Config) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		return fmt.Errorf("log.level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(os.Stderr, options)
	if c.Log.Format == "text" {
		h = slog.NewTextHandler(os.Stderr, options)
	}
	slog.SetDefault(slog.New(h))
	return nil
}

func migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the schema up to date", Args: cobra.NoArgs,
		RunE: withStore(func(c *cobra.Command, s *repo.Store, _ []string) error {
			applied, err := s.Migrate(c.Context())
			for _, name := range applied {
				fmt.Fprintln(c.OutOrStdout(), "applied", name)
			}
			if err == nil && len(applied) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "The schema is up to date.")
			}
			return err
		}),
	}
}

func auditCommand() *cobra.Command {
	return &cobra.Command{
		Use: "audit", Short: "Check that the books balance; exit status 3 if they do not", Args: cobra.NoArgs,
		Long: "Compares the counters of every SKU with its movements, orders and reservations. It locks nothing.\n\n" +
			"Exit status: 0 if all of them balance, 3 if one does not, 1 if that could not be found out.",
		RunE: withStore(func(c *cobra.Command, s *repo.Store, _ []string) error {
			skus, wrong, err := s.Audit(c.Context())
			if err != nil {
				return err
			}
			for _, w := range wrong {
				fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", w.SKU, w.Error)
			}
			fmt.Fprintf(c.OutOrStdout(), "%d SKUs checked.\n", skus)
			if len(wrong) > 0 {
				return statusError{fmt.Errorf("the books do not balance: %d errors", len(wrong)), unbalanced}
			}
			return nil
		}),
	}
}

func configCommand() *cobra.Command {
	return &cobra.Command{
		Use: "config", Short: "Print the settings in force, and where each comes from", Args: cobra.NoArgs,
		Long: "Prints the settings in force as a file, without secrets, and where each comes from.",
		RunE: func(c *cobra.Command, _ []string) error {
			_, all, err := load(c)
			if err != nil {
				return err
			}
			return config.Print(c.OutOrStdout(), all)
		},
	}
}

func tokenCommand() *cobra.Command {
	var sub, scope string
	var length time.Duration
	c := &cobra.Command{
		Use: "token", Short: "Print a token for development, signed with auth.secret", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, _, err := load(c)
			if err != nil {
				return err
			}
			if settings.Auth.Secret == "" {
				return errors.New("auth.secret (ORDERS_AUTH_SECRET): it is empty; tokens of an issuer come from there")
			}
			now := time.Now()
			claims := jwt.MapClaims{"sub": sub, "iat": now.Unix(), "exp": now.Add(length).Unix()}
			if scope != "" {
				claims["scope"] = scope
			}
			if settings.Auth.Audience != "" {
				claims["aud"] = settings.Auth.Audience
			}
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(settings.Auth.Secret))
			if err == nil {
				fmt.Fprintln(c.OutOrStdout(), token)
			}
			return err
		},
	}
	c.Flags().StringVar(&sub, "sub", "ann", "the customer")
	c.Flags().StringVar(&scope, "scope", "", `scopes, such as "stock:read stock:write"`)
	c.Flags().DurationVar(&length, "for", time.Hour, "how long it is valid")
	return c
}

func healthCommand() *cobra.Command {
	return &cobra.Command{
		Use: "healthcheck", Short: "Ask the instance on this computer whether it is ready", Args: cobra.NoArgs,
		Long: "Asks /readyz at http.operators of the settings. Exit status: 0 if it is ready, 1 if it is not.",
		RunE: func(c *cobra.Command, _ []string) error {
			settings, _, err := load(c)
			if err != nil {
				return err
			}
			host, port, err := net.SplitHostPort(settings.HTTP.Operators)
			if err != nil {
				return err
			}
			if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
				host = "localhost"
			}
			ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
			defer cancel()
			at := "http://" + net.JoinHostPort(host, port) + "/readyz"
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
			if err != nil {
				return err
			}
			reply, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer reply.Body.Close()
			if reply.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: status %d", at, reply.StatusCode)
			}
			return nil
		},
	}
}

func versionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), version)
			return err
		},
	}
}

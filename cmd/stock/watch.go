package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"example.com/stock/app"
	"example.com/stock/internal/panels"
	"example.com/stock/lock"
)

// watchWindow is the time over which a Prometheus measures rates: several times its usual interval of scrapes.
const watchWindow = "1m"

func watchCommand(v voice) *cobra.Command {
	var w watcher
	var instances []string
	cmd := &cobra.Command{
		Use:  "watch",
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&w.prometheus.URL, "prometheus", "", "")
	flags.StringSliceVar(&instances, "instances", nil, "")
	flags.DurationVar(&w.every, "every", 2*time.Second, "")
	flags.BoolVar(&w.once, "once", false, "")
	noColorFlag(cmd, &w.noColor)
	cmd.MarkFlagsMutuallyExclusive("prometheus", "instances")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		w.voice, w.out = v, cmd.OutOrStdout()
		if w.every < 100*time.Millisecond {
			return failure("wrong.flag", "flag", "every", "reason",
				v.say("wrong.least", "least", 100*time.Millisecond, "given", w.every))
		}
		if w.prometheus.URL != "" {
			if u, err := url.ParseRequestURI(w.prometheus.URL); err != nil || u.Host == "" {
				return failure("wrong.flag", "flag", "prometheus", "reason", v.say("watch.no-url"))
			}
			return w.run(cmd.Context())
		}
		if len(instances) == 0 {
			if instances, err = ownAddress(); err != nil {
				return err
			}
		}
		for _, addr := range instances {
			if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
				return failure("wrong.flag", "flag", "instances", "reason", v.say("watch.no-addr", "given", addr))
			}
		}
		w.instances.Addrs = instances
		return w.run(cmd.Context())
	}
	return cmd
}

// ownAddress returns the operators' address of an instance that is configured like this command: by the environment.
func ownAddress() ([]string, error) {
	all := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	app.AddFlags(all)
	cfg, err := app.Load(all)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(cfg.Admin.Addr)
	if err != nil {
		return nil, failure("watch.no-admin")
	}
	if host == "" { // every address of this computer
		host = "127.0.0.1"
	}
	return []string{net.JoinHostPort(host, port)}, nil
}

// A watcher draws a page about an installation again and again, by a Prometheus or by the instances themselves.
type watcher struct {
	voice
	out           io.Writer
	prometheus    panels.Prometheus // URL empty: by the instances
	instances     panels.Instances
	every         time.Duration
	once, noColor bool
}

// run draws pages until ctx ends, or a single one if the output is no terminal.
func (w *watcher) run(ctx context.Context) error {
	columns := width(w.out)
	direct := w.prometheus.URL == ""
	if w.once || columns == 0 {
		if direct { // rates need two scrapes
			w.instances.Scrape(ctx)
			if lock.Sleep(ctx, w.every) != nil {
				return nil
			}
		}
		_, err := io.WriteString(w.out, w.page(ctx, columns))
		return err
	}
	for first := true; ; first = false {
		page := w.page(ctx, columns)
		if ctx.Err() != nil {
			return nil // by Ctrl-C: the last page stays
		}
		screen := w.fitted(page, w.rows())
		if first {
			screen = "\x1b[2J" + screen
		}
		if _, err := io.WriteString(w.out, "\x1b[H"+strings.ReplaceAll(screen, "\n", "\x1b[K\n")+"\x1b[J"); err != nil {
			return err
		}
		if lock.Sleep(ctx, w.every) != nil {
			return nil
		}
		columns = width(w.out) // the window may have changed
	}
}

// rows returns the number of lines of the terminal.
func (w *watcher) rows() int {
	if file, ok := w.out.(interface{ Fd() uintptr }); ok {
		if _, rows, err := term.GetSize(int(file.Fd())); err == nil && rows > 0 {
			return rows
		}
	}
	return 24
}

// fitted returns the page without the lines that do not fit, of which the last line says that they exist.
func (v voice) fitted(page string, rows int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(page, "\n"), "\n")
	if len(lines) < rows {
		return page
	}
	kept := max(rows-2, 0)
	return strings.Join(lines[:kept], "") + v.say("watch.more", "n", len(lines)-kept) + "\n"
}

// colors reports whether the output is in colour.
func (w *watcher) colors(columns int) bool {
	return columns > 0 && !w.noColor && os.Getenv("NO_COLOR") == ""
}

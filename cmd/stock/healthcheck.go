package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/app"
)

// manyAnswers is the number of requests with --all. By round robin they reach each of a few instances, which learn of a
// server one after the other.
const manyAnswers = 10

// A readiness holds the flags of healthcheck.
type readiness struct {
	url  string
	all  bool
	wait time.Duration
}

func healthcheckCommand() *cobra.Command {
	var r readiness
	cmd := &cobra.Command{
		Use:  "healthcheck",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.url == "" {
				address, err := ownAddress()
				if err != nil {
					return err
				}
				r.url = "http://" + address + "/readyz"
			}
			if _, err := url.ParseRequestURI(r.url); err != nil {
				return wrong("url", err)
			}
			for began := time.Now(); ; {
				err := r.check(cmd.Context())
				if err == nil || time.Since(began) >= r.wait {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return errors.Join(err, context.Cause(cmd.Context()))
				case <-time.After(min(time.Second, r.wait)):
				}
			}
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.url, "url", "", "")
	flags.BoolVar(&r.all, "all", false, "")
	flags.DurationVar(&r.wait, "wait", 0, "")
	return cmd
}

// ownAddress returns the address at which an instance with the settings of this environment can be reached.
func ownAddress() (string, error) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	app.AddFlags(flags)
	cfg, err := app.Load(flags)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(cfg.Addr)
	switch host { // if the instance listens at all addresses
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port), err
}

// check sends one request, or many with --all.
func (r readiness) check(ctx context.Context) error {
	times := 1
	if r.all {
		times = manyAnswers
	}
	for range times {
		if err := r.ask(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ask sends one request. The error says what is not ready.
func (r readiness) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case resp.StatusCode != http.StatusOK:
		return failure("health.not-ready", "status", resp.Status, "said", string(body))
	case err != nil || !r.all:
		return err
	}
	var reply struct {
		Backends map[string]struct {
			Up     bool
			Reason string
		}
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return failure("health.no-readyz", "url", r.url, "why", err)
	}
	for _, name := range slices.Sorted(maps.Keys(reply.Backends)) {
		if b := reply.Backends[name]; !b.Up {
			err = errors.Join(err, failure("health.not-all", "server", name, "why", b.Reason))
		}
	}
	return err
}

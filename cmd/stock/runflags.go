package main

import (
	"cmp"
	"os"

	"github.com/spf13/pflag"

	"example.com/stock/loadtest"
)

// runFlags holds the flags that stock load and stock checkout share, besides those that differ in a default.
type runFlags struct {
	outputs
	url, token     string
	skew, quantity string
	at             []string
	history        string
}

func newRunFlags(v voice) runFlags { return runFlags{outputs: outputs{voice: v}} }

// addTarget adds the flags that help lists first.
func (f *runFlags) addTarget(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.url, "url", "http://localhost:8080", "")
	flags.StringVar(&f.token, "admin-token", "", "")
}

// addFiles adds the flags that help lists last.
func (f *runFlags) addFiles(flags *pflag.FlagSet) {
	flags.StringVar(&f.history, "history", "", "")
	f.outputs.addFiles(flags)
}

// parse takes the token from the environment if there is no flag, and returns what a plan has as lists. Its errors name
// the flag; they include those of files that cannot be written.
func (f *runFlags) parse(flags *pflag.FlagSet) (quantities []int64, at []loadtest.Command, err error) {
	f.token = cmp.Or(f.token, os.Getenv("STOCK_ADMIN_TOKEN"))
	if quantities, err = loadtest.ParseQuantities(f.quantity); err != nil {
		return nil, nil, wrong("quantity", err)
	}
	if at, err = parseCommands(f.at); err != nil {
		return nil, nil, wrong("at", err)
	}
	return quantities, at, checkOutput(flags)
}

// parseCommands parses the texts of --at.
func parseCommands(texts []string) (list []loadtest.Command, err error) {
	for _, text := range texts {
		c, err := loadtest.ParseCommand(text)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

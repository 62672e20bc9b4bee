package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// A target is a service to load, or to judge. Close gives its connections back.
type target interface {
	loadtest.Target
	Close()
}

// openTarget is the service at url: ours, or somebody else's that file describes.
func openTarget(url, token string, file *mapping.File, connections int) (target, error) {
	if file != nil {
		return mapping.NewTarget(url, token, connections, file)
	}
	return loadtest.NewClient(url, token, connections)
}

// readMapping reads the file of --mapping. Its errors are PlanErrors.
func readMapping(path string) (*mapping.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &loadtest.PlanError{Field: "mapping", Reason: err.Error()}
	}
	m, err := mapping.Parse(text)
	if err != nil {
		return nil, &loadtest.PlanError{Field: "mapping", Reason: fmt.Sprintf("%s is no mapping:\n%v", path, err)}
	}
	return m, nil
}

// describe takes over --mapping. There is one strategy then, and nothing to say of how it works.
func (f *loadFlags) describe(flags *pflag.FlagSet) error {
	if f.plan.Mapping == "" {
		return nil
	}
	for _, flag := range []string{"strategy", "store", "wait", "must-race"} {
		if flags.Changed(flag) {
			return &loadtest.PlanError{Field: flag, Reason: "cannot stand with --mapping: it is for a service of ours"}
		}
	}
	m, err := readMapping(f.plan.Mapping)
	if err != nil {
		return err
	}
	f.mapping, f.strategies = m, []string{m.Name()}
	return nil
}

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"example.com/stock/loadtest/mapping"
)

// mappingText returns the text of the file of --mapping. A name without a slash and a dot is of one that is shipped,
// unless there is such a file. The errors name the flag.
func mappingText(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && name != "" && !strings.ContainsAny(name, `./\`) {
		text, err = mapping.Shipped(name)
	}
	if err != nil {
		return nil, wrong("mapping", err)
	}
	return text, nil
}

// printMapping writes the file of --mapping, so that it can be changed.
func (f *loadFlags) printMapping(stdout io.Writer) error {
	if f.plan.Mapping == "" {
		return wrong("print", failure("wrong.print-alone"))
	}
	text, err := mappingText(f.plan.Mapping)
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}

// readMapping reads the file of --mapping. Its errors name the flag.
func readMapping(path string) (*mapping.File, error) {
	text, err := mappingText(path)
	if err != nil {
		return nil, err
	}
	m, err := mapping.Parse(text)
	if err != nil {
		return nil, wrong("mapping", failure("wrong.no-mapping", "path", path, "why", err))
	}
	return m, nil
}

// hasIDs returns an error if a mapping has ids of some SKUs, and not of all those.
func hasIDs(m *mapping.File, skus ...string) error {
	known := m.SKUs()
	for _, sku := range skus {
		if len(known) > 0 && !slices.Contains(known, sku) {
			return wrong("sku", failure("wrong.no-ids", "sku", sku, "known", strings.Join(known, ", ")))
		}
	}
	return nil
}

// tryMapping tries the mapping with one client.
func (f *loadFlags) tryMapping(ctx context.Context, stdout io.Writer) error {
	t, err := mapping.NewTarget(f.url, f.token, 1, f.mapping)
	if err != nil {
		return err
	}
	defer t.Close()
	found, err := t.Try(ctx, f.plan.Names()[0], stdout, string(f.voice))
	if err == nil && found > 0 {
		return exitError{code: exitUndecided}
	}
	return err
}

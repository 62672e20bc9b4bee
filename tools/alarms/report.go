package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
)

// String returns a line for the terminal.
func (r result) String() string {
	line := fmt.Sprintf("%-24s fires %s", r.Name, cmp.Or(strings.Join(r.Fires, ", "), "nothing"))
	if len(r.Fires) > 0 {
		line += fmt.Sprintf(" after %d evaluations, over after %d (times divided by %d)", r.fired, r.resolved, r.factor)
	}
	if len(r.Runbooks) > 0 {
		line += ", played: " + strings.Join(r.Runbooks, ", ")
	}
	return line
}

// render returns the file of a matrix.
func render(results []result) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	err := e.Encode(results)
	return b.Bytes(), err
}

// read returns the results of a file, or none if there is no file.
func read(file string) (kept []result, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return kept, nil
}

// merge returns the results of all rows, in their order: those of this run, otherwise those that were kept.
func merge(all []*failure, kept, results []result) (merged []result) {
	for _, f := range all {
		for _, list := range [][]result{results, kept} {
			if i := slices.IndexFunc(list, func(r result) bool { return r.Name == f.Name }); i >= 0 {
				merged = append(merged, list[i])
				break
			}
		}
	}
	return merged
}

// compare returns an error unless each result is among those that were kept.
func compare(kept, results []result) error {
	for _, r := range results {
		r.factor, r.fired, r.resolved = 0, 0, 0
		if !slices.ContainsFunc(kept, func(k result) bool { return reflect.DeepEqual(k, r) }) {
			return fmt.Errorf("%s does not have this result of %s: make alerts ARGS=--write", matrix, r.Name)
		}
	}
	return nil
}

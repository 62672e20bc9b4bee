package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// writeJSON writes what a run of the lab or of its soak found to the file of --json.
func writeJSON(path string, report any) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	enc := json.NewEncoder(file)
	enc.SetIndent("", " ")
	if err := errors.Join(enc.Encode(report), file.Close()); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}

package handler

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The document names every type of problem that the table has, and no other.
func TestTheDocumentNamesEveryProblem(t *testing.T) {
	var document struct {
		Components struct {
			Schemas struct {
				Problem struct {
					Properties struct{ Type struct{ Enum []string } }
				}
			}
		}
	}
	if err := json.Unmarshal(openAPIBase, &document); err != nil {
		t.Fatal(err)
	}
	named := document.Components.Schemas.Problem.Properties.Type.Enum
	var known []string
	for _, row := range table() {
		known = append(known, "/problems/"+row.kind.name)
	}
	for _, name := range known {
		if !slices.Contains(named, name) {
			t.Errorf("table.go has %s: add it to the enum of Problem.type in openapi.json", name)
		}
	}
	for _, name := range named {
		if !slices.Contains(known, name) {
			t.Errorf("the enum of Problem.type in openapi.json has %s, and table.go has no row for it", name)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(named)))) != len(named) ||
		strings.Contains(strings.Join(named, ""), " ") {
		t.Errorf("a type is named twice, or has a blank: %v", named)
	}
}

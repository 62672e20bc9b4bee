package report

import (
	"encoding/json"
	"strings"

	"example.com/stock/lab"
)

// guilty are the customers whose orders read the same version, each with the proof: of a collision certificate of the load test's judge.
func guilty(c lab.Cell) map[string]lab.Text {
	found := make(map[string]lab.Text)
	for _, e := range c.Evidence {
		if e.Kind != lab.Pair {
			continue
		}
		// The value is a structure in the process that ran, and what JSON made of it in one that reads a report.
		text, err := json.Marshal(e.Value)
		var pair struct {
			Orders []struct {
				RequestID string `json:"request_id"`
			} `json:"orders"`
		}
		if err != nil || json.Unmarshal(text, &pair) != nil {
			continue
		}
		for _, order := range pair.Orders {
			if i := strings.LastIndexByte(order.RequestID, '.'); i >= 0 {
				found[order.RequestID[i+1:]] = e.Said()
			}
		}
	}
	return found
}

package class

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// A source reads the steps of one instance until the class ends.
type source struct {
	name, url, token string
	tell             func(RunEvent)
	client           *http.Client

	boot int64
	last uint64 // last number read within boot
}

// again is the pause between tries to reach an instance.
const again = 100 * time.Millisecond

// follow reads until ctx ends.
func (s *source) follow(ctx context.Context) {
	for ctx.Err() == nil {
		_ = s.read(ctx) // ignored: Fault has recorded that the instance is dead or frozen
		_ = loadtest.Sleep(ctx, again)
	}
}

// read reads one stream to its end, from the oldest step that the instance keeps. It skips known steps, and counts
// those that the instance has discarded.
func (s *source) read(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/lab/steps?after=0", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", s.name, res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := s.message([]byte(data)); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// A told is the data of one message of an instance.
type told struct {
	Boot  int64 `json:"boot"`
	Steps []struct {
		Number    uint64 `json:"number"`
		At        int64  `json:"at_us"`
		Kind      string `json:"kind"`
		RequestID string `json:"request_id"`
		Read      int64  `json:"read"`
		Remaining int64  `json:"remaining"`
		Version   uint64 `json:"version"`
		Epoch     uint64 `json:"epoch"`
		Segment   int    `json:"segment"`
		Fence     string `json:"fence"`
		Point     string `json:"point"`
		Outcome   string `json:"outcome"`
		Replayed  bool   `json:"replayed"`
		SKU       string `json:"sku"`
		Batch     string `json:"batch"`
		BatchSize int    `json:"batch_size"`
	} `json:"steps"`
}

func (s *source) message(data []byte) error {
	var m told
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	if m.Boot != s.boot {
		s.boot, s.last = m.Boot, 0
	}
	for _, step := range m.Steps {
		if step.Number <= s.last {
			continue
		}
		if missed := step.Number - s.last - 1; missed > 0 {
			s.tell(RunEvent{
				At: step.At, From: s.name, Boot: m.Boot, Seq: step.Number - 1, Kind: gap, Count: missed,
				Run: runOf(step.RequestID),
			})
		}
		s.last = step.Number
		s.tell(RunEvent{
			At: step.At, From: s.name, Boot: m.Boot, Seq: step.Number, Kind: step.Kind, Req: step.RequestID,
			Read: step.Read, Remaining: step.Remaining, Version: step.Version, Epoch: step.Epoch, Segment: step.Segment,
			Fence: step.Fence, Point: step.Point, Outcome: step.Outcome, Replayed: step.Replayed,
			SKU: step.SKU, Batch: step.Batch, Size: step.BatchSize,
		})
	}
	return nil
}

package relay

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/service"
)

// What was delivered last is remembered of a bounded number of SKUs: one more, and all are forgotten but that. A later
// event of one that is known forgets none.
func TestWhatAWebhookRemembersIsBounded(t *testing.T) {
	w := &Webhook{log: slog.New(slog.DiscardHandler), last: make(map[service.SKU]Event)}
	note := func(i int, number uint64) {
		var e Event
		e.Data.SKU, e.Data.Number = service.SKU(strconv.Itoa(i)), number
		w.note(e)
	}
	for i := range maxLast {
		note(i, 1)
	}
	note(0, 2)
	if len(w.last) != maxLast || w.last["0"].Data.Number != 2 {
		t.Errorf("%d are remembered, the first with number %d", len(w.last), w.last["0"].Data.Number)
	}
	note(maxLast, 1)
	if len(w.last) != 1 {
		t.Errorf("one more: %d are remembered", len(w.last))
	}
}

// The ledger has gone back if a number comes again with another event, or a smaller one with a younger event. A repeat
// says nothing.
func TestAWebhookNoticesALedgerThatWentBack(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name   string
		number uint64
		id     string
		at     time.Time
		back   bool
		last   string // that is remembered
	}{
		{"the next", 6, "other", noon.Add(1), false, "other"},
		{"a repeat", 5, "id", noon, false, "id"},
		{"another event", 5, "other", noon, true, "other"},
		{"an earlier repeat", 4, "other", noon.Add(-1), false, "id"},
		{"an earlier repeat of that moment", 4, "other", noon, false, "id"},
		{"an earlier number, and younger", 4, "other", noon.Add(1), true, "other"},
	} {
		var said strings.Builder
		w := &Webhook{log: slog.New(slog.NewTextHandler(&said, nil)), last: make(map[service.SKU]Event)}
		first := Event{ID: "id", At: noon}
		first.Data.SKU, first.Data.Number = "a", 5
		w.note(first)
		e := first
		e.ID, e.At, e.Data.Number = row.id, row.at, row.number
		w.note(e)
		if back := said.Len() > 0; back != row.back || w.last["a"].ID != row.last {
			t.Errorf("%s: went back: %t, want %t; %s is remembered, want %s",
				row.name, back, row.back, w.last["a"].ID, row.last)
		}
	}
}

// A secret has 24 to 64 bytes.
func TestTheLengthOfASecret(t *testing.T) {
	for length, want := range map[int]bool{0: false, 23: false, 24: true, 64: true, 65: false} {
		text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), length))
		if key, err := ParseSecret(secretPrefix + text); (err == nil) != want || want && len(key) != length {
			t.Errorf("%d bytes: a key of %d, %v", length, len(key), err)
		}
		if _, err := ParseSecret(text); err == nil {
			t.Errorf("%d bytes without the prefix are a secret", length)
		}
	}
}

package loadtest

import (
	"cmp"
	"slices"
)

// batches checks the batches in replies: each place occurs once and is within the size, all sales of a batch name the
// same size and instance, and a later place has read a later version. That is the meaning of "as if they had been made
// one after the other in the order of arrival". Versions start again if the stock is set between two sales of a batch
// that are written singly.
//
// Sales missing from a batch prove nothing: they were refused, or their replies were lost.
func (l *ledger) batches() {
	byID := make(map[string][]*Record)
	var ids []string
	for _, r := range l.records {
		if r.Receipt == nil || r.Batch == nil {
			continue
		}
		if byID[r.Batch.ID] == nil {
			ids = append(ids, r.Batch.ID)
		}
		byID[r.Batch.ID] = append(byID[r.Batch.ID], r)
	}
	var misplaced finding
	for _, id := range ids {
		members := byID[id]
		slices.SortFunc(members, func(a, b *Record) int {
			return cmp.Or(cmp.Compare(a.Batch.Place, b.Batch.Place), cmp.Compare(a.Seq, b.Seq))
		})
		for i, r := range members {
			b, first := r.Batch, members[0]
			if b.Place < 1 || b.Place > b.Size {
				misplaced.add(say("batch.place", "request", r.RequestID, "place", b.Place, "size", b.Size))
				continue
			}
			if i == 0 {
				continue
			}
			switch last := members[i-1]; {
			case b.Size != first.Batch.Size:
				misplaced.add(say("batch.size", "batch", b.ID, "size", b.Size, "request", r.RequestID,
					"other_size", first.Batch.Size, "other", first.RequestID))
			case r.Instance != first.Instance:
				misplaced.add(say("batch.instance", "batch", b.ID, "instance", r.Instance, "request", r.RequestID,
					"other_instance", first.Instance, "other", first.RequestID))
			case b.Place == last.Batch.Place:
				misplaced.add(say("batch.same-place", "one", last.RequestID, "other", r.RequestID, "batch", b.ID))
			case r.Version <= last.Version && r.Epoch == last.Epoch:
				misplaced.add(say("batch.order", "later", r.RequestID, "earlier", last.RequestID, "batch", b.ID,
					"version", r.Version, "other", last.Version))
			}
		}
	}
	l.tell(&l.verdict.Misplaced, AboutReplies, "misplaced", misplaced)
}

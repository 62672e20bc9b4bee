package loadtest

import (
	"cmp"
	"slices"
)

// batches checks the batches that replies tell of: each place is taken once and is not beyond the size, all sales of a
// batch name one size and one instance, and a later place has read a later version. That is what "as if they had been
// made one after the other in the order of arrival" means. A stock may be set anew between two sales of a batch that
// are written singly; its versions begin again then.
//
// What is missing from a batch proves nothing: its other sales were refused, or their replies were lost.
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
				misplaced.add("request %s has place %d of %d", r.RequestID, b.Place, b.Size)
				continue
			}
			if i == 0 {
				continue
			}
			switch last := members[i-1]; {
			case b.Size != first.Batch.Size:
				misplaced.add("batch %s has %d sales by request %s, and %d by %s", b.ID, b.Size, r.RequestID,
					first.Batch.Size, first.RequestID)
			case r.Instance != first.Instance:
				misplaced.add("batch %s is of %s by request %s, and of %s by %s", b.ID, r.Instance, r.RequestID,
					first.Instance, first.RequestID)
			case b.Place == last.Batch.Place:
				misplaced.add("requests %s and %s have the same place in batch %s", last.RequestID, r.RequestID, b.ID)
			case r.Version <= last.Version && r.Epoch == last.Epoch:
				misplaced.add("request %s stands behind %s in batch %s, and read version %d, which is not behind %d",
					r.RequestID, last.RequestID, b.ID, r.Version, last.Version)
			}
		}
	}
	v := l.verdict
	v.Misplaced += misplaced.n
	if misplaced.n > 0 {
		l.because(AboutReplies, "misplaced: %s: %s",
			plural(misplaced.n, "reply tells a wrong batch", "replies tell a wrong batch"), misplaced.first)
	}
}

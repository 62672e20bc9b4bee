package scenario

import "example.com/stock/lab"

// strategiesTogether returns the function for the cases of a scenario in which one fault serves all strategies, and the
// lab's own code has a run of its own.
func strategiesTogether(
	strategies func([]*lab.Testbed) []lab.Observation, own func(*lab.Testbed) lab.Observation,
) func([]*lab.Testbed) []lab.Observation {
	return func(beds []*lab.Testbed) []lab.Observation {
		var together []*lab.Testbed
		for _, b := range beds {
			if b.Case.Code == "" {
				together = append(together, b)
			}
		}
		seen := make(map[*lab.Testbed]lab.Observation)
		if len(together) > 0 {
			for i, outcome := range strategies(together) {
				seen[together[i]] = outcome
			}
		}
		return lab.Each(beds, func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != "" {
				return own(b)
			}
			return seen[b]
		})
	}
}

// Variants that several scenarios share: the message by which a write becomes final, and its reply. The client cannot
// tell the first two apart.
const (
	replyLost    = "the-reply-is-lost"
	requestLost  = "the-request-is-lost"
	beforeCommit = "killed-before-the-write-is-final"
	afterCommit  = "killed-after-the-write-is-final"
)

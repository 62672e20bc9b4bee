package class

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Question is what the students vote on: will this run oversell or lose an update? Its choices are yes, no and
// unsure.
type Question struct {
	About string `json:"about,omitempty"` // the scene; empty: the next run
	Asked string `json:"asked,omitempty"` // the teacher's own question; empty: the prepared one
}

// maxAsked is the length of a question in characters: two lines of the wall.
const maxAsked = 120

// check returns an InputError for a question that cannot be shown.
func (q *Question) check() error {
	q.Asked = strings.TrimSpace(q.Asked)
	if utf8.RuneCountInString(q.Asked) > maxAsked || q.Asked != "" && !printable(q.Asked) {
		return wrong("asked", "asked", "most", maxAsked)
	}
	if _, known := sceneOf(q.About); q.About != "" && !known {
		return wrong("scene", "not_listed")
	}
	return nil
}

// maxHands is the largest number of hands for one choice.
const maxHands = 999

// Ask opens a vote. Counts are hidden while it is open, so that students think for themselves. The next run closes it.
func (c *Class) Ask(q Question) error {
	if err := q.check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.votes = make(map[int]int)
	c.noteVotes(RunEvent{On: true, About: q.About, Asked: q.Asked}, nil)
	return nil
}

// CloseVote closes the vote. To the votes of the phones it adds the hands that the teacher has counted, by choice.
func (c *Class) CloseVote(hands []int) error {
	for _, n := range hands {
		if err := within("hands", n, 0, maxHands); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	closed := c.voting()
	closed.On = false
	c.noteVotes(closed, hands)
	return nil
}

// noteVotes records the vote with the counts as they are now. c.mu must be held.
func (c *Class) noteVotes(vote RunEvent, hands []int) {
	vote.Kind, vote.Votes = voting, append(slices.Clone(hands), make([]int, choices)...)[:choices]
	for _, choice := range c.votes {
		vote.Votes[choice]++
	}
	c.note(vote)
}

// voting returns the event of the latest vote.
func (c *Class) voting() (vote RunEvent) {
	c.look(func(s *State) { vote = s.latest[voting] })
	return vote
}

// cast records or changes the vote of a student. It returns false if the vote is closed.
func (c *Class) cast(student, choice int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	vote := c.voting()
	if vote.On {
		c.votes[student] = choice
		c.noteVotes(vote, nil)
	}
	return vote.On
}

// voteOf returns a student's vote, if there is one.
func (c *Class) voteOf(student int) (choice *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.votes[student]; ok {
		choice = &v
	}
	return choice
}

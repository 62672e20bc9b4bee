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
	c.votes, c.question, c.ballot = make(map[int]int), q, true
	e := c.voted(make([]int, choices))
	c.mu.Unlock()
	c.note(e)
	return nil
}

// CloseVote closes the vote. To the votes of the phones it adds the hands that the teacher has counted, by choice.
func (c *Class) CloseVote(hands []int) error {
	hands = append(hands, make([]int, choices)...)[:choices]
	for _, n := range hands {
		if err := within("hands", n, 0, maxHands); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.ballot = false
	e := c.voted(hands)
	c.mu.Unlock()
	c.note(e)
	return nil
}

// voted returns the event of the vote as it is now. c.mu must be held.
func (c *Class) voted(hands []int) RunEvent {
	counts := slices.Clone(hands)
	for _, choice := range c.votes {
		counts[choice]++
	}
	return RunEvent{Kind: voting, On: c.ballot, Votes: counts, About: c.question.About, Asked: c.question.Asked}
}

// cast records or changes the vote of a student. It returns false if the vote is closed.
func (c *Class) cast(student, choice int) bool {
	c.mu.Lock()
	on := c.ballot
	if on {
		c.votes[student] = choice
	}
	e := c.voted(make([]int, choices))
	c.mu.Unlock()
	if on {
		c.note(e)
	}
	return on
}

// ballotOf reports whether the vote is open, and returns a student's vote and the question.
func (c *Class) ballotOf(student int) (on bool, choice *int, asked Question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.votes[student]; ok {
		choice = &v
	}
	return c.ballot, choice, c.question
}

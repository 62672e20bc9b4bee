package class

// Vote opens or closes the vote: will this run oversell or lose an update? Counts are hidden while it is open, so that
// students think for themselves. The next run closes it.
func (c *Class) Vote(on bool) {
	c.mu.Lock()
	if on {
		c.votes = make(map[int]int)
	}
	c.ballot = on
	counts := c.countVotes()
	c.mu.Unlock()
	c.note(RunEvent{Kind: voting, On: on, Votes: counts})
}

// cast records or changes the vote of a student. It returns false if the vote is closed.
func (c *Class) cast(student, choice int) bool {
	c.mu.Lock()
	on := c.ballot
	if on {
		c.votes[student] = choice
	}
	counts := c.countVotes()
	c.mu.Unlock()
	if on {
		c.note(RunEvent{Kind: voting, On: true, Votes: counts})
	}
	return on
}

// ballotOf reports whether the vote is open, and returns a student's vote.
func (c *Class) ballotOf(student int) (on bool, choice *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.votes[student]; ok {
		choice = &v
	}
	return c.ballot, choice
}

func (c *Class) countVotes() []int {
	counts := make([]int, choices)
	for _, choice := range c.votes {
		counts[choice]++
	}
	return counts
}

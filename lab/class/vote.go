package class

// Vote opens or closes the vote: will this run oversell or lose an update? While it is open nobody sees the counts:
// who sees what the others say does not think. The next run closes it.
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

// cast takes the vote of a student, or changes it.
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

// ballotOf says whether votes are taken, and what a student has voted.
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

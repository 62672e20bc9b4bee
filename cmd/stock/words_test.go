package main

import (
	"testing"

	"example.com/stock/words/wordstest"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheCommandsHaveTheirTexts(t *testing.T) {
	t.Parallel()
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{
		"say": {}, "Say": {}, "failure": {}, "listMigrations": {Bare: true},
	}, "server.", "lock.evicted", "lock.evicted-after")
}

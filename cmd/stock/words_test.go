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

// No sentence stands in the code but in help.
func TestTheCommandsSayNothingElse(t *testing.T) {
	t.Parallel()
	const help = "the text of --help is in English only, so far"
	names := make(map[string]string)
	for _, name := range []string{
		"Use", "Short", "Long", "Example", "demoLong", "labLong", "labRunLong", "labMatrixLong", "labSoakLong",
		"classLong", "loadLong", "loadExample", "verdictLong", "verdictExample", "reportLong", "reportExample",
		"lockExample", "healthcheckLong", "down", "migrateVerb", "StringVar", "StringSliceVar", "IntVar", "BoolVar",
		"DurationVar", "Int64Var", "Uint64Var", "BoolVarP", "StringSliceVarP", "IntVarP", "StringArrayVar",
	} {
		names[name] = help
	}
	const columns = "the heads of padded columns are names: tabwriter counts a Chinese character as one column"
	wordstest.Literals(t, wordstest.Allowed{Names: names, Files: map[string]string{
		"relay.go": "it is not translated yet",
		"audit.go": "it is not translated yet",
	}, Literals: map[string]string{
		"See it:":                       help,
		"Load a service, and judge it:": help,
		"Use the locks:":                help,
		"Run the service:":              help,
		"name of this machine, for others who ask (default: host name) (STOCK_INSTANCE)": help,
		"STRATEGY\tKEY\tPLACE\tWHO\tFOR\tLEFT\tFENCE":                                    columns,
		"STRATEGY\tENDPOINT\tROUND TRIPS\t":                                              columns,
		"stock lab soak --for %v --seed %d --instances %d":                               "a command",
		"exit status %d: %v": "main prints the error in it",
		playCommands:         "commands",
	}})
}

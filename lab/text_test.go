package lab

import (
	"encoding/json"
	"strings"
	"testing"

	"example.com/stock/internal/words/wordstest"
)

// Every text of this package is there, is given its values, and is used. Keys that are put together at run time are
// listed here.
func TestTheLabHasItsTexts(t *testing.T) {
	t.Parallel()
	made := []string{"case.naive", "case.fixed", "basis."}
	for _, g := range Groups() {
		made = append(made, "groups."+string(g))
	}
	for _, o := range Outcomes() {
		made = append(made, "outcomes."+string(o)+".word", "outcomes."+string(o)+".means")
		if o.Word().EN != string(o) {
			t.Errorf("the English word of %s is %s", o, o.Word().EN)
		}
	}
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{"say": {}}, made...)
}

// A case has a name in both languages. The English one must stay: files that are kept have it.
func TestACaseIsCalledInBothLanguages(t *testing.T) {
	t.Parallel()
	label := Text{EN: "heeds the loss", ZH: "锁丢失即停"}
	for _, row := range []struct {
		of   Case
		want Text
	}{
		{
			Case{Strategy: "redis-setnx", Store: "mysql", Label: label},
			Text{EN: "redis-setnx on mysql, heeds the loss", ZH: "redis-setnx（mysql），锁丢失即停"},
		},
		{Case{Strategy: "none"}, Text{EN: "none", ZH: "none"}},
		{Case{Code: "naive", Label: label}, Text{EN: "naive, heeds the loss", ZH: "错误写法，锁丢失即停"}},
		{Case{Code: "probe"}, Text{EN: "probe", ZH: "probe"}},
	} {
		if got := row.of.Said(); got != row.want || row.of.String() != row.want.EN {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// A report that was written and read says its cases in both languages, as the run did.
func TestACellReadBackIsInBothLanguages(t *testing.T) {
	written, err := json.Marshal(Cell{Strategy: "redis-setnx", Variant: "heeds the loss", ZH: "锁丢失即停"})
	if err != nil {
		t.Fatal(err)
	}
	var read Cell
	if err := json.Unmarshal(written, &read); err != nil {
		t.Fatal(err)
	}
	said := read.Case().Said()
	if !strings.Contains(said.EN, "heeds the loss") || !strings.Contains(said.ZH, "锁丢失即停") {
		t.Errorf("%+v", said)
	}
}

package main

import (
	"reflect"
	"testing"
)

func TestMergeAndCompare(t *testing.T) {
	all := []*failure{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	kept := []result{{Name: "gone"}, {Name: "b", Fires: []string{"Old"}}, {Name: "a", Fires: []string{"Kept"}}}
	run := []result{{Name: "b", Fires: []string{"New"}, fired: 3}, {Name: "c"}}
	want := []result{kept[2], run[0], run[1]}
	if got := merge(all, kept, run); !reflect.DeepEqual(got, want) {
		t.Errorf("merged: %+v, want %+v", got, want)
	}
	for _, row := range []struct {
		kept, run []result
		same      bool
	}{
		{kept, []result{{Name: "a", Fires: []string{"Kept"}, fired: 9}}, true}, // how long it took does not count
		{kept, run, false},
		{kept, []result{{Name: "c"}}, false},
		{kept, []result{{Name: "a", Fires: []string{"Kept"}, Resolves: true}}, false},
		{kept, []result{{Name: "a", Fires: []string{"Kept"}, Runbooks: []string{"b"}}}, false},
	} {
		if err := compare(row.kept, row.run); (err == nil) != row.same {
			t.Errorf("%+v with %+v: %v", row.run, row.kept, err)
		}
	}
}

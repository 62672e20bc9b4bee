package report_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/golden"
	"example.com/stock/loadtest"
)

// leaves collects the values of a history by the path of their field, such as .Records.Reply.Receipt.Read.
func leaves(v reflect.Value, path string, into map[string][]reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			leaves(v.Elem(), path, into)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), path, into)
		}
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				leaves(v.Field(i), path+"."+f.Name, into)
			}
		}
	case v.Kind() != reflect.Map && v.Kind() != reflect.Interface && v.Kind() != reflect.Func:
		into[path] = append(into[path], v)
	}
}

// change makes v another value: n decides in which direction.
func change(v reflect.Value, n int) {
	up := 1 - 2*(n%2)
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + float64(up))
	case reflect.Uint64:
		v.SetUint(v.Uint() + uint64(up))
	case reflect.Struct:
		at := v.Addr().Interface().(*time.Time)
		*at = at.Add(time.Duration(up) * 50 * time.Millisecond)
	default:
		v.SetInt(v.Int() + int64(up))
	}
}

// told returns what a result says besides its history, by name, in JSON.
func told(t *testing.T, r *loadtest.Result) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, part := range []any{r.Verdict, r.Latency} {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for name, value := range fields {
			all[name] = string(value)
		}
	}
	return all
}

// Of a recorded run, the judge and the figures say what they have always said, word for word; and of the same run with
// one value changed, what is different. Whether it should be is what other tests ask.
func TestRecordedVerdictsStay(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, name := range []string{"redis-watchdog", "merged"} {
		base := told(t, recorded(t, name))
		for _, field := range slices.Sorted(maps.Keys(base)) {
			fmt.Fprintf(&b, "%s %s: %s\n", name, field, base[field])
		}
		dice := rand.New(rand.NewPCG(1, 2))
		found := make(map[string][]reflect.Value)
		leaves(reflect.ValueOf(history(t, name)), "", found)
		for _, path := range slices.Sorted(maps.Keys(found)) {
			h, n := history(t, name), dice.IntN(1<<20)
			again := make(map[string][]reflect.Value)
			leaves(reflect.ValueOf(h), "", again)
			change(again[path][n%len(again[path])], n)
			fmt.Fprintf(&b, "%s%s at %d:", name, path, n)
			now := told(t, h.Result())
			for _, field := range slices.Sorted(maps.Keys(now)) {
				if now[field] != base[field] {
					fmt.Fprintf(&b, " %s=%s", field, now[field])
				}
			}
			b.WriteByte('\n')
		}
	}
	golden.Compare(t, filepath.Join("testdata", "verdicts.txt"), b.String(), *update)
}

package loadtest_test

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/golden"
	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// runs are small runs, each with something else in its evidence.
func runs() map[string]func(*tape) {
	at := func(r *loadtest.Record, from, to int) {
		r.SentAt, r.DoneAt = noon.Add(time.Duration(from)*time.Second), noon.Add(time.Duration(to)*time.Second)
	}
	blind := func(t *tape) {
		for i := range t.account.Orders {
			o := &t.account.Orders[i]
			o.Read, o.Remaining, o.Version, o.Blind = 0, 0, 0, true
		}
	}
	return map[string]func(*tape){
		"all outcomes": func(t *tape) {
			at(t.next(2), 0, 2)
			at(t.next(3), 1, 3)
			at(t.answer(loadtest.Busy, 1), 1, 2)
			at(t.answer(loadtest.Failed, 2), 2, 4)
			t.next(4)
			lost := &t.records[len(t.records)-1] // its order is in the store
			lost.Outcome, lost.Receipt = loadtest.Unknown, nil
			at(lost, 3, 5)
			at(t.answer(loadtest.Unknown, 1), 4, 6)
			at(t.next(1), 5, 7)
			at(t.answer(loadtest.SoldOut, 1), 6, 8)
			t.account.LookedAt = noon.Add(9 * time.Second)
		},
		"held one after the other": func(t *tape) {
			for i := range 3 {
				r := t.next(2)
				r.Fence, r.Tries, r.Wakeups = uint64(5+i), 1+i, i
				t.account.Orders[i].Fence = r.Fence
				at(r, 2*i, 2*i+2)
				r.AcquiredAt, r.ReadAt = r.SentAt, r.SentAt.Add(time.Millisecond)
				r.WrittenAt, r.ReleasedAt = r.DoneAt.Add(-time.Millisecond), r.DoneAt
			}
		},
		"merged": func(t *tape) {
			t.merged("b1", 1, 3)
			t.merged("b1", 2, 3)
			t.merged("b1", 3, 3)
			t.merged("b2", 1, 2)
		},
		"in segments": func(t *tape) {
			t.from(1, 1, 5, 2)
			t.from(2, 1, 5, 1)
			t.from(2, 2, 4, 1)
			t.from(1, 2, 3, 3)
		},
		"a lost update": func(t *tape) {
			t.sell(3, 10, 4)
			t.sell(3, 10, 3)
			t.next(1)
		},
		"oversold": func(t *tape) {
			t.sell(3, 10, 6)
			t.sell(3, 10, 6)
		},
		"orders that tell no stock": func(t *tape) {
			at(t.next(2), 0, 2)
			at(t.next(3), 1, 3)
			blind(t)
		},
		"nothing is told of the stock": func(t *tape) {
			at(t.next(2), 0, 2)
			at(t.next(3), 1, 3)
			blind(t)
			for i := range t.records {
				t.records[i].Receipt = &loadtest.Receipt{Blind: true, Epoch: 2}
			}
		},
		"one order in two parts": func(t *tape) {
			at(t.next(2), 0, 2)
			at(t.next(3), 1, 3)
			blind(t)
			second := t.account.Orders[1]
			second.OrderID, second.Quantity = "o2b", 1
			t.account.Orders[1].Quantity = 2
			t.account.Orders = append(t.account.Orders, second)
		},
		"no orders are listed": func(t *tape) {
			at(t.next(2), 0, 2)
			at(t.next(3), 1, 3)
			at(t.answer(loadtest.Unknown, 2), 2, 4)
			t.account.Before.Mapped, t.account.Before.Unlisted = true, true
			t.account.Orders, t.account.Complete = nil, false
		},
		"others sell, too": func(t *tape) {
			t.next(2)
			t.next(1)
			t.account.Orders[1].RequestID, t.records = "another's", t.records[:1]
			t.shared = true
		},
		"undone": func(t *tape) {
			t.next(2)
			t.next(1)
			t.account.Undone, t.account.Orders = t.account.Orders[1:], t.account.Orders[:1]
			t.account.After.Quantity++
		},
	}
}

// A leaf is a value in the evidence, with its path, such as records[0].quantity. Of a list the first and the last are
// looked into.
type leaf struct {
	path string
	reflect.Value
}

func leaves(path string, v reflect.Value, list []leaf) []leaf {
	switch {
	case v.Kind() == reflect.Pointer:
		if list = append(list, leaf{path, v}); !v.IsNil() {
			list = leaves(path, v.Elem(), list)
		}
	case v.Kind() == reflect.Slice:
		list = append(list, leaf{path, v})
		for i := range v.Len() {
			if i == 0 || i == v.Len()-1 {
				list = leaves(fmt.Sprintf("%s[%d]", path, i), v.Index(i), list)
			}
		}
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() &&
		v.Type() != reflect.TypeFor[words.Text]():
		for i := range v.NumField() {
			f := v.Type().Field(i)
			below := path
			if !f.Anonymous {
				below += "." + strings.ToLower(f.Name)
			}
			list = leaves(strings.TrimPrefix(below, "."), v.Field(i), list)
		}
	default:
		list = append(list, leaf{path, v})
	}
	return list
}

// changes are what can become of a value.
func changes(v reflect.Value) map[string]func() {
	switch v.Kind() {
	case reflect.Pointer:
		return map[string]func(){"nil": v.SetZero}
	case reflect.Slice:
		first := min(1, v.Len())
		return map[string]func(){
			"without the first": func() { v.Set(v.Slice(first, v.Len())) },
			"the first twice":   func() { v.Set(reflect.AppendSlice(v.Slice3(0, first, first), v)) },
		}
	case reflect.String:
		return map[string]func(){"empty": v.SetZero, "another": func() { v.SetString(v.String() + "x") }}
	case reflect.Bool:
		return map[string]func(){"the opposite": func() { v.SetBool(!v.Bool()) }}
	case reflect.Int, reflect.Int64:
		return map[string]func(){
			"+1": func() { v.SetInt(v.Int() + 1) }, "-1": func() { v.SetInt(v.Int() - 1) }, "0": v.SetZero,
		}
	case reflect.Uint64:
		return map[string]func(){"+1": func() { v.SetUint(v.Uint() + 1) }, "0": v.SetZero}
	case reflect.Float64:
		return map[string]func(){"0": v.SetZero}
	}
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		return map[string]func(){
			"zero": v.SetZero,
			"+3s":  func() { *x = x.Add(3 * time.Second) },
			"-3s":  func() { *x = x.Add(-3 * time.Second) },
		}
	case *words.Text:
		return map[string]func(){"another": func() { *x = words.Same("changed") }}
	}
	panic(v.Type())
}

// impossible reports whether a run cannot have this record, and ReadHistory refuses it.
func impossible(r loadtest.Record) bool {
	return r.DoneAt.Before(r.SentAt) || (r.Outcome == loadtest.Accepted) != (r.Receipt != nil)
}

// Each value of the evidence of these runs is changed by the least that there is, and the verdict says the same as it
// did when this was kept: which of its numbers differ from those of the unchanged run. Whether it should is what other
// tests ask.
func TestVerdictsOfChangedEvidence(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(runs())) {
		evidence := func() *loadtest.Evidence {
			tape := newTape(10)
			runs()[name](tape)
			return &loadtest.Evidence{
				Records: tape.records, Accounts: []loadtest.Account{tape.account}, Shared: tape.shared,
				Promise: loadtest.Promise{Scope: loadtest.Cluster, Exclusive: true},
			}
		}
		unchanged := numbers(t, loadtest.Judge(*evidence()))
		fmt.Fprintf(&b, "%s:%s\n", name, differences(nil, unchanged))
		nothing := make(map[string][]string) // paths, by change
		for i, l := range leaves("", reflect.ValueOf(evidence()).Elem(), nil) {
			for _, how := range slices.Sorted(maps.Keys(changes(l.Value))) {
				e := evidence()
				changes(leaves("", reflect.ValueOf(e).Elem(), nil)[i].Value)[how]()
				if slices.ContainsFunc(e.Records, impossible) {
					continue
				}
				if d := differences(unchanged, numbers(t, loadtest.Judge(*e))); d != "" {
					fmt.Fprintf(&b, "  %s %s:%s\n", l.path, how, d)
				} else {
					nothing[how] = append(nothing[how], l.path)
				}
			}
		}
		for _, how := range slices.Sorted(maps.Keys(nothing)) {
			fmt.Fprintf(&b, "  no difference, %s: %s\n", how, strings.Join(nothing[how], " "))
		}
	}
	golden.Compare(t, filepath.Join("testdata", "changed.txt"), b.String(), *update)
}

// numbers are the fields of a verdict that are no sentences, by their path. Of the reasons it is what they are about.
func numbers(t *testing.T, v loadtest.Verdict) map[string]string {
	found := make(map[string]string)
	var add func(path string, value any)
	add = func(path string, value any) {
		switch x := value.(type) {
		case map[string]any:
			for name, value := range x {
				add(strings.Trim(path+"."+name, "."), value)
			}
		case []any:
			found[path] = fmt.Sprint(len(x))
		case string:
			if path == "finding" || path == "linear.result" {
				found[path] = x
			}
		case nil:
		default:
			found[path] = fmt.Sprint(x)
		}
	}
	for name, value := range inJSON(t, v) {
		add(name, said(value))
	}
	var about []string
	for _, r := range v.Reasons {
		about = append(about, r.About)
	}
	found["reasons"] = strings.Join(about, "+")
	delete(found, "sent")
	return found
}

// differences are the fields of now that are not as in then.
func differences(then, now map[string]string) string {
	var b strings.Builder
	fields := maps.Clone(now)
	maps.Copy(fields, then)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if then[name] != now[name] {
			fmt.Fprintf(&b, " %s=%s", name, cmp.Or(now[name], "0"))
		}
	}
	return b.String()
}

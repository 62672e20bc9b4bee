package checkout_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// A value is one field of one record of the evidence. attempt is the record of an attempt that it is of, if it is.
type value struct {
	reflect.Value
	attempt *checkout.Record
}

// outside are the names of the fields that have no name in JSON.
func outside() map[string]string {
	return map[string]string{
		"Run": "run", "Limit": "limit", "Records": "attempt", "Books": "", "Before": "before", "After": "after",
		"Movements": "movement", "Events": "event", "Orders": "order", "Reservations": "reservation",
		"StartedAt": "started_at", "ReadAt": "read_at", "Unheard": "unheard", "Unread": "unread",
	}
}

// A walk collects values by the path of their field, such as movement.at.
type walk struct {
	names map[string]string
	only  string // this field alone; "": all
	found map[string][]value
	wrong []string // fields without a name
}

// fields returns all values of the evidence; with only, those of that field.
func fields(t *testing.T, e *checkout.Evidence, only string) map[string][]value {
	t.Helper()
	w := &walk{outside(), only, make(map[string][]value), nil}
	w.below("", reflect.ValueOf(e).Elem(), nil)
	if len(w.wrong) > 0 {
		t.Fatalf("fields without a name: %v", w.wrong)
	}
	return w.found
}

func (w *walk) below(path string, v reflect.Value, attempt *checkout.Record) {
	switch {
	case w.only != "" && path != "" && path != w.only && !strings.HasPrefix(w.only, path+"."):
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			w.below(path, v.Elem(), attempt)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			w.below(path, v.Index(i), attempt)
		}
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() &&
		v.Type() != reflect.TypeFor[words.Text]():
		if r, ok := v.Addr().Interface().(*checkout.Record); ok {
			attempt = r
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, known := w.names[f.Name]
			if !known {
				if name, _, _ = strings.Cut(f.Tag.Get("json"), ","); name == "-" || name == "" && !f.Anonymous {
					w.wrong = append(w.wrong, f.Name)
				}
			}
			w.below(strings.Trim(path+"."+name, "."), v.Field(i), attempt)
		}
	default:
		w.found[path] = append(w.found[path], value{v, attempt})
	}
}

// change makes v another value.
func change(v reflect.Value, n int) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = x.Add(time.Duration(1-2*(n%2)) * 24 * time.Hour)
	case *words.Text:
		*x = words.Same("changed")
	case *bool:
		*x = !*x
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Uint64:
			v.SetUint(v.Uint() + 1)
		default:
			v.SetInt(v.Int() + 1)
		}
	}
}

// A rule says where a field that is compared cannot be changed without being found, and how it is changed.
type rule struct {
	where  func(r *checkout.Record) bool // nil: everywhere
	change func(v reflect.Value, n int)  // nil: change
}

// rules are of the fields that are compared, but not everywhere. docs/verdict.md says so, too.
func rules() map[string]rule {
	done := func(r *checkout.Record) bool { return r.Outcome == checkout.Done }
	said := func(r *checkout.Record) bool { return done(r) || r.Outcome == checkout.Refused }
	full := func(r *checkout.Record) bool { return r.Problem == "too_many_reservations" }
	delivered := func(r *checkout.Record) bool { return r.Op == checkout.OpDeliver && done(r) }
	shift := func(by time.Duration) func(reflect.Value, int) {
		return func(v reflect.Value, _ int) {
			at := v.Addr().Interface().(*time.Time)
			*at = at.Add(by)
		}
	}
	return map[string]rule{
		"attempt.customer": {where: func(r *checkout.Record) bool { return done(r) || r.Op == checkout.OpDeliver }},
		"attempt.key": {where: func(r *checkout.Record) bool {
			return delivered(r) || r.Attempt > 1 || r.Misuse
		}},
		"attempt.lines.quantity": {where: done},
		"attempt.lines.sku":      {where: done},
		"attempt.ttl": {where: done, change: func(v reflect.Value, _ int) {
			d, _ := time.ParseDuration(v.String())
			v.SetString((d + time.Second).String())
		}},
		"attempt.cut":      {where: said},
		"attempt.settling": {where: func(r *checkout.Record) bool { return r.Seq < 100 }},
		"attempt.status":   {where: done, change: func(v reflect.Value, _ int) { v.SetInt(503) }},
		"attempt.problem":  {where: said},
		"attempt.of":       {where: full},
		"attempt.limit":    {where: full, change: func(v reflect.Value, _ int) { v.SetInt(1000) }},
		"attempt.replayed": {where: func(r *checkout.Record) bool { return r.Again && r.Key != "" }},
		"started_at":       {change: shift(time.Minute)},
		"read_at":          {change: shift(-time.Minute)},
	}
}

// listed returns the fields that docs/verdict.md lists under a heading.
func listed(t *testing.T, page, heading string) (list []string) {
	t.Helper()
	_, section, found := strings.Cut(page, "\n### "+heading+"\n")
	if !found {
		t.Fatalf("docs/verdict.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	names := regexp.MustCompile("`([a-z_.]+)`")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, name := range names.FindAllStringSubmatch(cells[1], -1) {
			if strings.TrimSpace(cells[2]) == "" {
				t.Errorf("%s: nothing is said of it", name[1])
			}
			list = append(list, name[1])
		}
	}
	return list
}

// docs/verdict.md lists every field of every record, as compared or as not compared. Both are so: whatever is changed
// in a field that is compared is found, and what is changed in another changes no verdict.
func TestEveryFieldIsComparedOrListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/verdict.md")
	if err != nil {
		t.Fatal(err)
	}
	compared, ignored := listed(t, string(text), "Compared"), listed(t, string(text), "Not compared")
	s, url := serve(t, "few-open")
	base := &run(t, s, url, plan()).Evidence
	names := slices.Sorted(maps.Keys(fields(t, base, "")))
	if both := slices.Sorted(slices.Values(slices.Concat(compared, ignored))); !slices.Equal(names, both) {
		t.Fatalf("the records have\n%v\nthe page lists\n%v", names, both)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dice, how := rand.New(rand.NewPCG(1, 2)), rules()[name]
			if how.change == nil {
				how.change = change
			}
			for range places / 2 {
				e, n := clone(base), dice.IntN(1<<20)
				list := slices.DeleteFunc(fields(t, e, name)[name], func(v value) bool {
					return how.where != nil && !how.where(v.attempt)
				})
				if len(list) == 0 {
					t.Fatal("there was nothing to change")
				}
				v := list[n%len(list)]
				was := fmt.Sprint(v.Value)
				how.change(v.Value, n)
				verdict := checkout.Judge(e)
				if holds := verdict.Finding == loadtest.Holds; holds != slices.Contains(ignored, name) {
					t.Fatalf("%s was %s and is %v, of %+v: %s: %v", name, was, v.Value, v.attempt, verdict.Sentence,
						failures(&verdict))
				}
			}
		})
	}
}

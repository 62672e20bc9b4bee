package browsertest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"
)

// mark is the variable that an injected script sets. No page contains it.
const mark = "injectedScriptRan"

// payload closes any element or attribute that a text may be in, and runs a script in three ways.
const payload = `"'></text></title></style></script>--><img src="x:" onerror="window.` + mark + `=1">` +
	`<svg onload="window.` + mark + `=1"><script>window.` + mark + `=1</script>`

// Fields returns the names of all strings that the type of record can have, such as ".Cells[].Events[].Kind". They
// include the keys of maps.
func Fields(record any) []string {
	return fields(reflect.TypeOf(record), "", nil)
}

func fields(t reflect.Type, name string, above []reflect.Type) (list []string) {
	for _, same := range above {
		if same == t {
			return nil
		}
	}
	above = append(above[:len(above):len(above)], t)
	switch t.Kind() {
	case reflect.String:
		return []string{name}
	case reflect.Interface:
		if t.NumMethod() == 0 {
			list = []string{name}
		}
		return list
	case reflect.Pointer:
		return fields(t.Elem(), name, above)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		return fields(t.Elem(), name+"[]", above)
	case reflect.Map:
		list = fields(t.Elem(), name+"{}", above)
		if t.Key().Kind() == reflect.String {
			list = append(list, name+"{key}")
		}
		return list
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() {
				list = append(list, fields(f.Type, name+"."+f.Name, above)...)
			}
		}
	}
	return list
}

// Inject appends a script to every string of that name in the record at pointer. Where the string is missing, it adds
// one.
func Inject(pointer any, name string) { inject(reflect.ValueOf(pointer).Elem(), name) }

func inject(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + payload)
	case reflect.Interface:
		if text, is := v.Interface().(string); is || v.IsNil() {
			v.Set(reflect.ValueOf(text + payload))
			return
		}
		var whole any // as decoded from the file
		text, _ := json.Marshal(v.Interface())
		_ = json.Unmarshal(text, &whole)
		v.Set(reflect.ValueOf(everywhere(whole)))
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		inject(v.Elem(), name)
	case reflect.Slice, reflect.Array:
		if v.Len() == 0 && v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			inject(v.Index(i), strings.TrimPrefix(name, "[]"))
		}
	case reflect.Map:
		injectMap(v, name)
	case reflect.Struct:
		field, rest := strings.TrimPrefix(name, "."), ""
		if i := strings.IndexAny(field, ".[{"); i >= 0 {
			field, rest = field[:i], field[i:]
		}
		inject(v.FieldByName(field), rest)
	}
}

func injectMap(v reflect.Value, name string) {
	changed := reflect.MakeMap(v.Type())
	rest, values := strings.CutPrefix(name, "{}")
	set := func(key, value reflect.Value) {
		k, into := reflect.New(key.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
		k.Set(key)
		into.Set(value)
		if values {
			inject(into, rest)
		} else {
			k.SetString(k.String() + payload)
		}
		changed.SetMapIndex(k, into)
	}
	for key, value := range v.Seq2() {
		set(key, value)
	}
	if v.Len() == 0 {
		set(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	}
	v.Set(changed)
}

// everywhere appends a script to every string in a decoded JSON value.
func everywhere(value any) any {
	switch value := value.(type) {
	case string:
		return value + payload
	case []any:
		for i := range value {
			value[i] = everywhere(value[i])
		}
	case map[string]any:
		for key, one := range value {
			value[key] = everywhere(one)
		}
	}
	return value
}

// Injected reports whether a page contains anything that Inject added to its record. As text that is allowed.
func Injected(text string) bool { return strings.Contains(text, mark) }

// Inert reports an error if a page contains anything executable from a record. It parses the page as browsers do, and
// runs nothing.
func Inert(t testing.TB, what, text string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		data := false
		for _, a := range n.Attr {
			key, value := strings.ToLower(a.Key), strings.ToLower(strings.TrimSpace(a.Val))
			data = data || key == "type" && value == "application/json"
			if strings.HasPrefix(key, "on") || strings.HasPrefix(value, "javascript:") {
				t.Errorf("%s: <%s %s=%q>", what, n.Data, a.Key, a.Val)
				return
			}
		}
		if n.Data == "script" && !data && n.FirstChild != nil && Injected(n.FirstChild.Data) {
			t.Errorf("%s: a script has what was injected", what)
			return
		}
	}
}

// NothingRan opens a page without its Content-Security-Policy, and reports an error if a script that Inject added to
// its record ran, or would run on a click. ready is an expression that becomes true when the page's own scripts are
// done.
func NothingRan(t testing.TB, tab context.Context, what, text, ready string) {
	t.Helper()
	bypass := page.SetBypassCSPParams{Enabled: true}
	if _, err := chromedp.Call(tab, page.SetBypassCSP, bypass); err != nil {
		t.Fatal(err)
	}
	open(t, tab, text, ready)
	alive := `window.` + mark + ` || [...document.querySelectorAll("*")].some(e =>
		[...e.attributes].some(a => a.name.startsWith("on") || a.value.trim().toLowerCase().startsWith("javascript:")))`
	if ran, err := chromedp.Run(tab, chromedp.Evaluate[bool]("Boolean("+alive+")")); err != nil || ran {
		t.Errorf("%s: what was injected is alive (%v, %v)", what, ran, err)
	}
}

// PolicyHolds adds scripts to a page and opens it with its Content-Security-Policy. It reports an error if they run.
// ready is an expression that becomes true when the page's own scripts are done, which must run.
func PolicyHolds(t testing.TB, tab context.Context, text, ready string) {
	t.Helper()
	body := strings.LastIndex(text, "</body>")
	if body < 0 {
		t.Fatal("the page has no </body>")
	}
	added := `<img id="added" src="x:" onerror="window.` + mark + `=1"><script>window.` + mark + `=1</script>`
	open(t, tab, text[:body]+added+text[body:], "("+ready+`) && document.querySelector("#added").complete`)
	if ran, err := chromedp.Run(tab, chromedp.Evaluate[bool](`Boolean(window.`+mark+`)`)); err != nil || ran {
		t.Errorf("a script that was added ran (%v, %v)", ran, err)
	}
}

// open opens a page from a file and waits until it is ready.
func open(t testing.TB, tab context.Context, text, ready string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(tab, chromedp.Navigate("file://"+path)); err != nil {
		t.Fatal(err)
	}
	for done := false; !done; time.Sleep(10 * time.Millisecond) { // bounded by the tab's context
		var err error
		if done, err = chromedp.Run(tab, chromedp.Evaluate[bool]("Boolean("+ready+")")); err != nil {
			t.Fatalf("it is not %s: %v", ready, err)
		}
	}
}

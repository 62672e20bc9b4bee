package mapping

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"example.com/stock/loadtest"
)

// A veil puts the names of secrets in the place of their values, in all that is shown or kept.
type veil struct{ replacer *strings.Replacer } // nil: there are no secrets

// newVeil returns the veil for secrets, which maps each to what is shown in its place, in all forms in which requests
// have it and replies may repeat it. headers may have some in the basic scheme.
func newVeil(secrets map[string]string, headers []header, v values) veil {
	forms := make(map[string]string)
	add := func(form, shown string) {
		forms[form], forms[inJSON(form)] = shown, shown
		forms[url.PathEscape(form)], forms[url.QueryEscape(form)] = shown, shown
	}
	for secret, shown := range secrets {
		add(secret, shown)
		add(base64.StdEncoding.EncodeToString([]byte(secret)), shown)
	}
	for _, h := range headers {
		if h.basic {
			add(strings.TrimPrefix(h.sent(v), "Basic "), "{{basic}}")
		}
	}
	if len(forms) == 0 {
		return veil{}
	}
	var pairs []string
	// A secret may be a part of another one: the longer is replaced first.
	for _, form := range slices.SortedFunc(maps.Keys(forms), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, form, forms[form])
	}
	return veil{strings.NewReplacer(pairs...)}
}

// over returns text without secrets.
func (v veil) over(text string) string {
	if v.replacer == nil {
		return text
	}
	return v.replacer.Replace(text)
}

// overError returns the error of a target without secrets.
func (v veil) overError(err error) error {
	var of *loadtest.TargetError
	if !errors.As(err, &of) {
		return err
	}
	text := of.Err.Error()
	if shown := v.over(text); shown != text {
		return &loadtest.TargetError{URL: of.URL, Err: errors.New(shown)}
	}
	return err
}

// redirect returns the target of a redirect without secrets, or "". They are replaced first: nothing of one that is
// cut off is left.
func (v veil) redirect(a *loadtest.Answer) string {
	to := http.Header{"Location": {v.over(a.Header.Get("Location"))}}
	shown := loadtest.Answer{Status: a.Status, Header: to}
	return shown.Redirect()
}

// beginning returns the beginning of a reply, for an error message.
func (v veil) beginning(a *loadtest.Answer) string { return quoted(v.over(string(a.Body))) }

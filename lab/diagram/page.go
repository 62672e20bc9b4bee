package diagram

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"html/template"
	"strings"

	"example.com/stock/internal/words"
	"example.com/stock/lab"
)

//go:embed head.html.tmpl
var headText string

// A Head is what the templates "head" and "end" need to begin and end a page with figures. The page is one file, needs
// no network, and is in both languages, between which the reader switches.
type Head struct {
	Title, Policy string
	Style         template.CSS
	Script        template.JS // in CDATA, so that the page is also XML
	Chinese       bool        // the initial language
}

// NewHead returns the head of a page with its own style, and a script that makes its figures steppable.
func NewHead(title, lang, style, script string) Head {
	script = "//<![CDATA[\n" + strings.Replace(Script, "export ", "", 1) + script + "//]]>\n"
	return Head{
		Title: title, Policy: Policy(script), Style: template.CSS(style + Style), Script: template.JS(script),
		Chinese: lang == words.Chinese,
	}
}

// ParsePage parses the template of a page, which can use "head", "end" and the function both.
func ParsePage(text string, functions template.FuncMap) (*template.Template, error) {
	t := template.New("page").Funcs(template.FuncMap{"both": Both}).Funcs(functions)
	if _, err := t.Parse(headText); err != nil {
		return nil, err
	}
	return t.Parse(text)
}

// Both writes a text in both languages, of which the page shows one.
func Both(t lab.Text) template.HTML { return template.HTML(Spoken("span", t)) }

// Spoken returns a text in both languages in elements of that name, as HTML, or once if they are equal.
func Spoken(element string, t lab.Text) string {
	if t.EN == t.ZH {
		return html.EscapeString(t.EN)
	}
	return fmt.Sprintf(`<%[1]s lang="en">%[2]s</%[1]s><%[1]s lang="zh">%[3]s</%[1]s>`, element,
		html.EscapeString(t.EN), html.EscapeString(t.ZH))
}

// Policy returns the Content-Security-Policy of a single-file page with figures. Only script runs, and nothing is
// loaded or sent. Styles are allowed, because a figure sets the width of its picture.
func Policy(script string) string {
	digest := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " +
		"script-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
}

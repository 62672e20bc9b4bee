package mapping

import "testing"

// A value stays a value, whatever the body's language is.
func TestContent(t *testing.T) {
	const hostile = `a"b'c&d<e>f\g`
	for kind, want := range map[string]string{
		"application/json":                  `[a\"b'c\u0026d\u003ce\u003ef\\g]`,
		"application/x-www-form-urlencoded": "[a%22b%27c%26d%3Ce%3Ef%5Cg]",
		"application/xml":                   `[a&#34;b&#39;c&amp;d&lt;e&gt;f\g]`,
		"text/xml; charset=utf-8":           `[a&#34;b&#39;c&amp;d&lt;e&gt;f\g]`,
		"text/plain":                        "[" + hostile + "]",
	} {
		parts := template{{text: "["}, {variable: "sku"}, {text: "]"}}
		if got := parts.content(kind, values{"sku": hostile}); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

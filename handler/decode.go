package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// wholeNumber allows only one spelling of each number: it rejects 007 and -0.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)

// numbers are the fields that are JSON numbers. All others are strings: an SKU 123 is "123".
var numbers = []string{"quantity", "limit"}

// fields holds the named values of one request, from the query and from a JSON object. Each name is given at most once.
type fields map[string]string

// decode collects the fields of a request. Names outside allowed are refused: a misspelled field must not be ignored.
func decode(c *gin.Context, allowed ...string) (fields, error) {
	f := make(fields)
	var query url.Values
	var err error
	if c.Request.URL.RawQuery != "" {
		query, err = url.ParseQuery(c.Request.URL.RawQuery)
	}
	if err != nil {
		return nil, service.Invalid("query", "pairs")
	}
	for name, values := range query {
		if at := notUTF8([]byte(name)); at > 0 {
			return nil, service.Invalid("query", "utf-8", "at", at)
		}
		if at := notUTF8([]byte(values[0])); at > 0 {
			return nil, service.Invalid(shorten(name), "utf-8", "at", at)
		}
		if len(values) > 1 {
			return nil, service.Invalid(shorten(name), "twice")
		}
		f[name] = values[0]
	}
	body, err := readBody(c)
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		if err := f.addJSON(body, allowed); err != nil {
			return nil, err
		}
	}
	for name := range f {
		if err := checkName(name, allowed); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func checkName(name string, allowed []string) error {
	switch {
	case slices.Contains(allowed, name):
		return nil
	case len(allowed) == 0:
		return service.Invalid(shorten(name), "unknown")
	default:
		known := strings.Join(allowed, ", ")
		return service.Invalid(shorten(name), "known", "list", known)
	}
}

// readBody reads the body, within the limits. An empty body counts as none, whatever its Content-Type.
//
// encoding/json replaces what is no character by U+FFFD. The replacement would be stored, and two different texts would
// become the same one. So readBody refuses such a body.
func readBody(c *gin.Context) ([]byte, error) {
	if c.Request.ContentLength > MaxBody {
		return nil, errTooLarge // without reading, so a client that sent Expect: 100-continue sends no body
	}
	if c.Request.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(c.Request.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlowBody
	case err != nil:
		return nil, service.Invalid("body", "read")
	}
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return nil, nil
	}
	for coding := range strings.SplitSeq(strings.Join(c.Request.Header.Values("Content-Encoding"), ","), ",") {
		coding = strings.TrimSpace(coding)
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return nil, errEncoded
		}
	}
	media, parameters, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	charset, given := parameters["charset"]
	switch {
	case err != nil || media != "application/json":
		return nil, errMedia
	case given && !strings.EqualFold(charset, "utf-8"):
		return nil, errCharset
	}
	if at := notUTF8(body); at > 0 {
		return nil, service.Invalid("body", "utf-8", "at", at)
	}
	if at := loneSurrogate(body); at > 0 {
		return nil, service.Invalid("body", "surrogate", "at", at)
	}
	return trimmed, nil
}

// notUTF8 returns the position of the first byte that is not part of a character, counted from 1, or 0.
func notUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at + 1
		}
		at += size
	}
	return 0
}

// escapedUnit matches an escape in JSON, in which a character may be a pair of UTF-16 surrogates.
var escapedUnit = regexp.MustCompile(
	`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)`,
)

// loneSurrogate returns the position of the first escape that is half of a pair, counted from 1, or 0.
func loneSurrogate(body []byte) int {
	if !bytes.Contains(body, []byte(`\u`)) {
		return 0
	}
	for _, match := range escapedUnit.FindAllSubmatchIndex(body, -1) {
		if match[2] >= 0 { // the group of a half matched
			return match[0] + 1
		}
	}
	return 0
}

// addJSON adds the members of a JSON object: strings, and numbers with the digits that were sent.
func (f fields) addJSON(body []byte, allowed []string) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return service.Invalid("body", "object")
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return notJSON(d)
		}
		name, _ := token.(string)
		if err := checkName(name, allowed); err != nil {
			return err
		}
		if _, twice := f[name]; twice {
			return service.Invalid(name, "twice")
		}
		switch value, err := d.Token(); v := value.(type) {
		case string:
			if slices.Contains(numbers, name) {
				return service.Invalid(name, "number")
			}
			f[name] = v
		case json.Number:
			if !slices.Contains(numbers, name) {
				return service.Invalid(name, "string")
			}
			f[name] = v.String()
		default:
			if err != nil {
				return notJSON(d)
			}
			return service.Invalid(name, "either")
		}
	}
	if _, err := d.Token(); err != nil {
		return notJSON(d)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return service.Invalid("body", "rest")
	}
	return nil
}

// notJSON returns the error for a body that is not JSON.
func notJSON(d *json.Decoder) error {
	return service.Invalid("body", "json", "at", d.InputOffset())
}

// shorten returns the first bytes of a name that a client chose, so that it cannot fill the reply.
func shorten(s string) string { return truncate(s, 40) }

// truncate returns the first n bytes of a client's text, so that it cannot fill the log or a reply.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// number returns a whole number from least to most, or def if it is absent.
func (f fields) number(name string, def, least, most int64) (int64, error) {
	text, ok := f[name]
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !wholeNumber.MatchString(text) || n < least || n > most {
		return 0, service.Invalid(name, "whole", "least", least, "most", most)
	}
	return n, nil
}

// has reports whether at least one of the fields is present.
func (f fields) has(names ...string) bool {
	for _, name := range names {
		if _, ok := f[name]; ok {
			return true
		}
	}
	return false
}

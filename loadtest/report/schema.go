package report

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema is the JSON schema (draft 2020-12) of what loadtest.WriteJSON writes.
func Schema() []byte { return schema }

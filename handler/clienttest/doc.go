// Package clienttest generates a client from the OpenAPI document of a running service, with oapi-codegen, and uses it
// against the service.
//
// It is a module of its own, because the generator brings some fifteen modules along, and the service should not have
// them in its go.mod. Run it by "make client-test", or here by "go test .".
package clienttest

import _ "github.com/oapi-codegen/runtime" // the generated client needs it: keeps it in go.mod

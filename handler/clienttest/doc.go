// Package clienttest generates a client from the OpenAPI document of a running service, with oapi-codegen, and uses
// it against the service.
//
// It is a separate module, so that the service's go.mod lacks the generator's fifteen dependencies. Run it by "make
// client-test", or here by "go test .".
package clienttest

import _ "github.com/oapi-codegen/runtime" // keeps the generated client's dependency in go.mod

// Package clienttest generates a client from the OpenAPI document of a running service, with oapi-codegen, and uses
// it against the service.
//
// It is a separate module, so that the generator's fifteen dependencies are not in the service's go.mod. Run it with
// "make client-test", or with "go test ." in this folder.
package clienttest

import _ "github.com/oapi-codegen/runtime" // keeps the generated client's dependency in go.mod

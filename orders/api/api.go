// Package api is the contract, openapi.yaml, and what is generated from it.
package api

// The second line lets a handler have the context of the request: the generator passes *gin.Context, which gin uses for
// another request while database/sql still looks at it. The third removes a second comment of the package.

//go:generate go tool -modfile=tools.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml
//go:generate gofmt -w -r "a(ctx, request.(b)) -> a(ctx.Request.Context(), request.(b))" gen.go
//go:generate sed -i.bak 1,2d gen.go
//go:generate rm gen.go.bak

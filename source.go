// Package stock is the source of an order service, as stock new writes it: see package starter.
package stock

import "embed"

// Source has the module file and the order service.
//
//go:embed go.mod go.sum LICENSE
//go:embed orders/.devcontainer orders/.dockerignore orders/.env.example orders/.github orders/.gitignore
//go:embed orders/.golangci.yml orders/Makefile orders/README.md
//go:embed orders/api orders/app orders/cmd orders/config orders/deploy orders/docs orders/handler orders/internal
//go:embed orders/outbox orders/repo orders/service
var Source embed.FS

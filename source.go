// Package stock is the source of an order service, as stock new writes it: see package starter.
package stock

import "embed"

// Source has the module file, the order service, and the lock library with one driver.
//
//go:embed go.mod go.sum LICENSE
//go:embed orders/.devcontainer orders/.dockerignore orders/.env.example orders/.github orders/.gitignore
//go:embed orders/.golangci.yml orders/Makefile orders/README.md
//go:embed orders/api orders/app orders/cmd orders/config orders/deploy orders/docs orders/handler orders/internal
//go:embed orders/outbox orders/repo orders/service
//go:embed lock/*.go lock/driver/rediserr/*.go lock/driver/redisscript/* lock/redislock/*.go lock/redislock/*.lua
var Source embed.FS

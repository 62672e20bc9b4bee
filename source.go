// Package stock is the source of an order service, as stock new writes it: see package starter.
package stock

import "embed"

// Source has the files from which starter chooses. Folders that a service of one's own never has are not in it.
//
//go:embed go.mod go.sum LICENSE
//go:embed app/*.go app/text/*.yaml app/health/*.go app/metrics/*.go app/credentials/*.go app/traces/*.go repo/gate/*.go
//go:embed cmd/stock/args.go
//go:embed cmd/stock/audit.go cmd/stock/config.go cmd/stock/exit.go cmd/stock/healthcheck.go cmd/stock/migrate.go
//go:embed cmd/stock/help/*.yaml cmd/stock/text/*.yaml
//go:embed cmd/stock/token.go handler/access/*.go handler/access/issuer/*.go
//go:embed handler/*.go handler/orders/*.go handler/openapi.json handler/text/*
//go:embed internal/mysqlconn/*.go internal/mysqlerr/*.go internal/rediserr/*.go internal/redisscript/*
//go:embed service/order/*.go
//go:embed lock/*.go lock/locktest/*.go lock/redislock/*.go lock/redislock/*.lua lock/zklock/*.go
//go:embed repo/*.go repo/ledger/*.go repo/ledger/*.lua repo/migrations/*.sql
//go:embed service/*.go service/ratelimit/*.go internal/words/*.go
var Source embed.FS

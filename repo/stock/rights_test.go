package stock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/service"
)

// A script that lacks a right writes nothing, whichever right it is, in every state that the clauses bring about.
func TestAScriptThatIsRefusedHasWrittenNothing(t *testing.T) {
	t.Parallel()
	addr := servertest.Redis(t).Addr
	c := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	t.Cleanup(func() { _ = c.Close() })
	rights := servertest.NewRights(t, addr)
	c.AddHook(rights)
	s := onRedis(c)
	for _, clause := range allClauses() {
		if strings.Contains(clause.name, "many") {
			continue // they send scripts at the same time, and each is tried on what the others have written
		}
		if testing.Short() && clause.name == "batch-as-one-by-one" {
			continue // hundreds of calls of scripts that the other clauses call
		}
		t.Run(clause.name, func(t *testing.T) { clause.check(t, s, service.SKU("sku-"+clause.name)) })
		c.FlushAll(t.Context())
	}
	origin := service.Origin{ID: "a", Generation: 1}
	if err := s.Replace(t.Context(), service.Origin{}, origin); err != nil {
		t.Error(err)
	}
	if err := s.Seed(t.Context(), origin, "seeded", 1); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	var sources []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(text))
	}
	rights.Check(sources...)
}

package ledger_test

import (
	"testing"

	"example.com/stock/repo/repotest"
)

func TestMain(m *testing.M) { repotest.Main(m) }

var (
	newSKU = repotest.NewSKU
	short  = repotest.Short
)

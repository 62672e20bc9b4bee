package scenario

import (
	"example.com/stock/internal/stack"
	"example.com/stock/lab"
	"example.com/stock/lock/locktest/server"
)

// startSentinels starts a master with replicas, and Sentinels that watch them.
func startSentinels(b *lab.Testbed, replicas int) *server.Sentinels {
	x, err := b.Stack().StartSentinels(b.Ctx, replicas)
	b.Must("start the Sentinels", err)
	b.Defer(func() {
		for _, server := range append(x.Sentinels, x.Redis...) {
			_ = server.Kill()
		}
	})
	return x
}

// through returns env with the settings by which an instance finds Redis through the Sentinels.
func through(x *server.Sentinels, env ...string) []string {
	return append(env, stack.SentinelsSetting(x))
}

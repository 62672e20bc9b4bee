package strategy

import (
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

func optimistic() Strategy {
	return Strategy{
		Name:     "optimistic",
		Endpoint: "/deduct_stock_optimistic",
		Summary: Text{
			EN: "no lock: write only if the version is unchanged since the read, otherwise retry after a random " +
				"pause",
			ZH: "不加锁：版本号未变才写入，否则随机等待后从头再来",
		},
		Caveat: Text{
			EN: "Contention is expensive: of all sales that read one version one succeeds, and the work of the " +
				"others is lost (the retry storm). It is not fair: an unlucky request may use up its 100 tries and " +
				"fail as busy.",
			ZH: "竞争激烈时并不便宜：读到同一版本的请求只有一个成功，其余白做（重试风暴）；不公平：运气不好的会用完 100 次重试，被告知“忙”。",
		},
		// Blocking, because it retries for as long as the request waits. Fenced, because there is no lease to lose.
		Promise: driver.Promise{Scope: driver.Cluster, Fenced: true, Blocking: true, SignalsLoss: true},
		Seller:  func(Servers) service.Seller { return service.Optimistically },
	}
}

package lab

func localMutex() Scenario {
	return Scenario{
		Name: "local-mutex", Group: NoLock,
		Title: Text{"A mutex in the process, and a second process", "进程内的互斥锁，遇上第二个进程"},
		Setup: Text{
			"One unit in stock. Once both buyers come to one instance, once to two.",
			"库存 1 件。一次两个买家到同一个实例，一次到两个实例。",
		},
		Forced: Text{
			"A reads and stops before it writes; B comes and does not wait for the lock.",
			"A 读完停在写入之前；B 到来，不等锁。",
		},
		Why: Text{
			"A mutex is memory of one process. The second instance has another one, and finds it free. Sticky sessions hide that, until an instance is restarted.",
			"互斥锁只是一个进程的内存。第二个实例有自己的一把，而且是空闲的。会话粘滞会把问题藏起来，直到某个实例重启。",
		},
		Fix:   Text{"A lock that all instances share.", "使用所有实例共享的锁。"},
		Needs: []Need{NeedRedis},
		Cases: []Case{
			{Strategy: "local-mutex", Variant: "1 instance"},
			{Strategy: "local-mutex", Variant: "2 instances"},
		},
		Quick: true,
		Predict: func(c Case, p Promise) Forecast {
			if c.Variant == "1 instance" && p.Scope == process {
				return Forecast{Outcome: Safe, From: "scope: process"}
			}
			return excludes(p, Safe)
		},
		Run: func(b *Bench) Observation {
			apps := b.Apps(2)
			if b.Case.Variant == "1 instance" {
				return twoBuyers(b, apps[0], apps[0])
			}
			return twoBuyers(b, apps[0], apps[1])
		},
	}
}

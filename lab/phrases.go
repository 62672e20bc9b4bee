package lab

import "fmt"

// chinese says in Chinese what a format of [Bench.Evidence], [Bench.Note] or [Bench.Interval] says in English, or is "". Names, values of servers and the messages of
// errors stay as they are: they are what a reader will search for.
func chinese(format string, args []any) string {
	phrase, ok := phrases()[format]
	if !ok {
		return ""
	}
	translated := make([]any, len(args))
	for i, arg := range args {
		translated[i] = arg
		if text, ok := arg.(Text); ok {
			translated[i] = text.ZH
		}
	}
	return fmt.Sprintf(phrase, translated...)
}

// phrases is by the English format. One that takes its arguments in another order numbers them. That none is missing is a test's to see.
func phrases() map[string]string {
	return map[string]string{
		// who was told what
		"%s (%s): %s":               "%s（%s）：%s",
		"A was told: %v":            "A 得到的答复：%v",
		"A was told: %s: %s":        "A 得到的答复：%s：%s",
		"A's customer was told: %v": "A 的客户得到的答复：%v",
		"B was told: %v":            "B 得到的答复：%v",
		"B was told: %s":            "B 得到的答复：%s",
		"%s was told: %s":           "%s 得到的答复：%s",
		"after a person has set the stock to 0, %s says: %s": "有人把库存设为 0 之后，%s 答复：%s",
		"A wrote late: %s":                                                            "A 迟到的写入：%s",
		"B wanted another SKU and was told: %v":                                       "B 要的是另一个 SKU，得到的答复：%v",
		"one of the two was told: error %d":                                           "两者之一得到的答复：错误 %d",
		"one of the two was told: error %d, and all its work is undone":               "两者之一得到的答复：错误 %d，它的全部工作已撤销",
		"the second request was told: %v; its answer is order %d, as the first one's": "第二个请求得到的答复：%v；它的回答是第 %d 个订单，与第一个相同",
		"order %d of the one that was wanted: %s, read %d, left %d":                   "只要一个订单，这是第 %d 个：%s，读到 %d，剩 %d",
		"RELEASE_LOCK answered %d: it released nothing":                               "RELEASE_LOCK 返回 %d：它什么也没释放",

		// who was let in, and when
		"B was turned away while A was in the critical section":           "A 在临界区内时，B 被拒绝",
		"B was let in %v after A was frozen":                              "A 被冻结 %v 之后，B 进入",
		"B was let in %v after the crash":                                 "崩溃 %v 之后，B 进入",
		"B was let in %v after the silence began":                         "网络静默 %v 之后，B 进入",
		"B was let in after %v":                                           "%v 之后，B 进入",
		"B was let in after %v, with A before its write":                  "%v 之后 B 进入，而 A 还没写入",
		"B was not let in for %v, longer than the lease":                  "B 等了 %v（比租约长），一直未能进入",
		"B gave up after %v, three leases":                                "B 等了 %v（三个租约）后放弃",
		"the next holder was in %v after the crash":                       "崩溃 %v 之后，下一个持有者进入",
		"A was answered after %v":                                         "A 在 %v 之后得到答复",
		"B asked for the lock and got it":                                 "B 请求加锁，得到了",
		"B has the lock, and C is kept out":                               "B 持有锁，C 被挡在外面",
		"C was let in beside B, who still held the lock":                  "B 仍持有锁，C 却也进入了",
		"C has the lock beside B, whose lease is two minutes long":        "B 的租约有两分钟，C 却也拿到了锁",
		"A believes that it has the lock: %t; B has it: %t":               "A 自认为持有锁：%t；B 持有锁：%t",
		"B waited for the row of A, and nobody was ended":                 "B 等待 A 的行，没有人被中止",
		"A could not write its order, and B could not have the row":       "A 写不进订单，B 也拿不到那一行",
		"%d who came later were served, and B was not":                    "有 %d 个后来者已得到服务，B 还没有",
		"by the versions that they read they were served in the order %v": "按各自读到的版本，得到服务的次序是 %v",

		// what there was, and what was sold
		"%d in stock, %d sold, %d left: %s":                                      "库存 %d，卖出 %d，剩余 %d：%s",
		"%d in stock, %d sold, %d left":                                          "库存 %d，卖出 %d，剩余 %d",
		"2 in stock, %d sold, %d left":                                           "库存 2，卖出 %d，剩余 %d",
		"1 in stock, 2 sold, %d left":                                            "库存 1，卖出 2，剩余 %d",
		"of 20 units %d are left":                                                "20 件中剩 %d 件",
		"of 10 and 10 there are %d and %d":                                       "原来各 10 件，现在是 %d 件和 %d 件",
		"%d of 2 carts were served":                                              "2 个购物车中 %d 个得到服务",
		"%d in stock, and sold before; %d sold after":                            "库存 %d，之前已全部卖出；之后又卖出 %d",
		"%d orders for the one that was wanted":                                  "只要一个订单，却有 %d 个",
		"%d pair of orders saw the same quantity":                                "有 %d 对订单读到同一个数量",
		"%s and %s both read %d and sold it":                                     "%s 和 %s 都读到 %d，并且都卖了",
		"%d sales took %d tries; %d of %d buyers had to begin again":             "%d 笔成交用了 %d 次尝试；%[4]d 个买家中有 %[3]d 个要重来",
		"orders of %s (%s) and %s (%s) both read version %d with %d and %d left": "%s（%s）和 %s（%s）的订单都读到版本 %d，当时库存为 %d 和 %d",
		"the largest fence that the store has seen is %d":                        "存储见过的最大 fence 是 %d",

		// what the servers said
		"redis: PTTL %s = %s": "redis：PTTL %s = %s",
		"redis: both keys are held, and neither of them ends for %v":                      "redis：两个键都被持有，%v 之内都不会过期",
		"mysql: the connection of A is gone":                                              "mysql：A 的连接已经没有了",
		"mysql: the lock is held by connection %d, which does nothing (%d of 1 asleep)":   "mysql：锁由连接 %d 持有，而它什么也不做（1 个中 %d 个在休眠）",
		"mysql: the row of A is there, and nothing in it says until when":                 "mysql：A 的行还在，其中没有写明到何时为止",
		"mysql: the transaction of A is open, with %d row changed":                        "mysql：A 的事务还开着，已改 %d 行",
		"mysql: the transaction of A, which wants one row, has locked %d records":         "mysql：A 的事务只要一行，却锁住了 %d 条记录",
		"the pool: %d of %d connections in use, %d waited for one":                        "连接池：%[2]d 个连接中 %[1]d 个在用，%[3]d 次等待连接",
		"zookeeper: for %d turns it woke somebody %d times":                               "zookeeper：%d 轮里共唤醒 %d 次",
		"zookeeper: for %d sales it woke a request %d times":                              "zookeeper：%d 笔成交里共唤醒请求 %d 次",
		"zookeeper: the queue is %v; A waits for %s, which is of %s, its own session: %t": "zookeeper：队列是 %v；A 在等 %s，它属于 %s，是 A 自己的会话：%t",
		"zookeeper: the queue is %v; the first is of %s, which went away":                 "zookeeper：队列是 %v；第一个属于已经离开的 %s",
		"%s the nodes have: %s": "%s，各节点上有：%s",

		// what happened, in timelines
		"%s":                               "%s",
		"%s: %s":                           "%s：%s",
		"%s asks %s%s":                     "%s 请求 %s%s",
		"%s goes away without the reply":   "%s 没等答复就离开了",
		"gives up":                         "放弃等待",
		"grants the lock to %s":            "把锁授予 %s",
		"A reads no message for %v":        "A 有 %v 没读任何消息",
		"%s stood at %s":                   "%s 停在 %s",
		"%s held the lock, as it believed": "%s 自认为持有锁",
		"the server has it held by %s":     "服务器认为持有者是 %s",
		"%s read %d and wrote %d":          "%s 读到 %d，写入 %d",
		"%s was refused: %s":               "%s 被拒绝：%s",
		"%s was frozen (SIGSTOP) for %v":   "%s 被冻结（SIGSTOP）%v",
		"%s is killed (SIGKILL)":           "%s 被杀死（SIGKILL）",
		"%s is killed and started again":   "%s 被杀死后重新启动",
		"%s is dead":                       "%s 已死",
		"node 1 is killed":                 "节点 1 被杀死",
		"a stranger has the key":           "键在别人手里",
		"the stranger is gone":             "别人走了",
		"its clock jumps %v ahead":         "它的时钟向前跳了 %v",
		"the master is killed; the Sentinels have promoted %s": "主节点被杀死，哨兵已把 %s 提升为主节点",
		"silence between %s and ZooKeeper":                     "%s 与 ZooKeeper 之间网络静默",
		"the connection to ZooKeeper is cut":                   "到 ZooKeeper 的连接被切断",
		"locked %s":                                            "锁住了 %s",
		"has both: %t":                                         "两个都拿到了：%t",
		"%d in stock":                                          "库存 %d",
		"sold out":                                             "已售罄",
		"reads %d":                                             "读到 %d",
		"writes %d":                                            "写入 %d",
		"unlock":                                               "解锁",
		"compare and delete":                                   "比较后删除",
		"GET: it is mine":                                      "GET：是我的",
		"%s: error %d":                                         "%s：错误 %d",
		"%s waits for a row":                                   "%s 在等一行的锁",
		"create: %s, %v":                                       "create：%s，%v",
		"delete %s":                                            "delete %s",
		"INSERT INTO orders on a second connection: %v": "在第二条连接上 INSERT INTO orders：%v",
		"SELECT ... %s: error %d":                       "SELECT ... %s：错误 %d",
		"SET stock %d NX":                               "SET stock %d NX",
		"DECR stock = %d":                               "DECR stock = %d",
		"UPDATE stock SET quantity = %d":                "UPDATE stock SET quantity = %d",
	}
}

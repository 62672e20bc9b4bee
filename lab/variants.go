package lab

import "cmp"

// Said is the case in both languages. Names of strategies and stores stay: they are what one types.
func (c Case) Said() Text {
	subject := cmp.Or(map[string]string{"naive": "幼稚代码", "mended": "改正后的代码"}[c.Subject()], c.Subject())
	if c.Store != "" {
		subject += "（" + c.Store + "）"
	}
	if c.Variant != "" {
		subject += "，" + c.Different().ZH
	}
	return Text{c.String(), subject}
}

// Different is the variant in both languages.
func (c Case) Different() Text { return Text{c.Variant, cmp.Or(variants()[c.Variant], c.Variant)} }

// variants is by the English variant. That none is missing is a test's to see.
func variants() map[string]string {
	return map[string]string{
		"1 instance":  "1 个实例",
		"2 instances": "2 个实例",

		// what the code does
		"unlock, then commit":             "先解锁后提交",
		"commit, then unlock":             "先提交后解锁",
		"lock, then begin":                "先加锁后开事务",
		"begin, then lock":                "先开事务后加锁",
		"begin, lock, then FOR UPDATE":    "先开事务，再加锁，再 FOR UPDATE",
		"seeds what is not there":         "没有就写入初始库存",
		"GET, then DEL":                   "先 GET 后 DEL",
		"one script":                      "一段脚本",
		"with repair":                     "带修复",
		"takes it for a failure":          "当作失败",
		"answers with the unlock's error": "用解锁的错误答复",
		"counts votes":                    "只数票数",
		"takes any grant":                 "凡是授予都接受",
		"does not delete":                 "不删除",
		"tries again":                     "再试",
		"spins":                           "自旋",
		"commits what there is":           "有多少提交多少",
		"rolls back":                      "回滚",
		"look, then insert":               "先查后插",
		"insert, then lock":               "先插入后加锁",
		"as its holder":                   "以持有者的身份",
		"as a stranger":                   "以外人的身份",

		// what it has
		"a key, unique in the orders": "订单中唯一的键",
		"a budget of 3 s":             "3 秒的预算",
		"no budget":                   "没有预算",
		"no time limit":               "没有时限",
		"no index":                    "没有索引",
		"unique index":                "唯一索引",
		"one node for all":            "所有人共用一个节点",
		"a queue of nodes":            "节点排队",
		"any connection":              "任意一条连接",
		"one connection":              "同一条连接",
		"one pool":                    "同一个连接池",
		"a pool for locks":            "锁专用的连接池",
		"row locks":                   "行锁",
		"row locks, sorted":           "行锁，按顺序",
		"Redis locks":                 "Redis 锁",
		"Redis locks, sorted":         "Redis 锁，按顺序",
		"READ COMMITTED":              "READ COMMITTED",
		"REPEATABLE READ":             "REPEATABLE READ",
		"FOR UPDATE":                  "FOR UPDATE",

		// what becomes of the lock
		renews:                       "有续期",
		told:                         "理会锁的丢失",
		deaf:                         "不理会锁的丢失",
		blind:                        "不理会锁的丢失，没有 fence",
		severed:                      "没有复制",
		severedOff:                   "没有复制，不理会锁的丢失",
		severedRaw:                   "没有复制，不理会锁的丢失，没有 fence",
		"not replicated, WAIT 1":     "没有复制，WAIT 1",
		"replicated, WAIT 1":         "已复制，WAIT 1",
		"one master of five dies":    "五个主节点死一个",
		"no persistence":             "没有持久化",
		"no persistence, quarantine": "没有持久化，有隔离期",
		"append-only file":           "AOF 持久化",
	}
}

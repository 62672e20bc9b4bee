package report

import "example.com/stock/lab"

// A chapter is a group with its name.
type chapter struct {
	Group lab.Group
	Name  lab.Text
}

// chapters are the groups in the order that teaches.
func chapters() []chapter {
	return []chapter{
		{lab.NoLock, lab.Text{EN: "No lock, or the wrong one", ZH: "没有锁，或锁错了地方"}},
		{lab.SetNX, lab.Text{EN: "SETNX and its family", ZH: "SETNX 一族"}},
		{lab.Redlock, lab.Text{EN: "Redlock", ZH: "Redlock"}},
		{lab.ZooKeeper, lab.Text{EN: "ZooKeeper", ZH: "ZooKeeper"}},
		{lab.MySQL, lab.Text{EN: "MySQL, and no lock at all", ZH: "MySQL，以及完全不用锁"}},
		{lab.Fairness, lab.Text{EN: "Waiting", ZH: "等待"}},
	}
}

// A meaning is what an outcome is, in words.
type meaning struct {
	Outcome lab.Outcome
	Means   lab.Text
	Class   string // good, odd or bad
}

// Word is the outcome's name.
func (m meaning) Word() lab.Text { return m.Outcome.Word() }

// meanings explains every outcome.
func meanings() []meaning {
	return []meaning{
		{lab.Safe, lab.Text{EN: "the fault did no harm: every unit sold was there, nobody was held up for long or turned away", ZH: "故障没有造成损害：卖出的每一件都真实存在，没有人久等或被拒"}, "good"},
		{lab.Oversells, lab.Text{EN: "an update was lost: sold, and not taken off the stock", ZH: "丢失更新：卖出了，却没有从库存扣除"}, "bad"},
		{lab.Refuses, lab.Text{EN: "the write that would have done harm was refused, and its customer was told", ZH: "会造成损害的写入被拒绝，并告知了客户"}, "good"},
		{lab.Delays, lab.Text{EN: "others wait, for a time with a known end", ZH: "其他人要等，但等多久有上限"}, "odd"},
		{lab.Blocks, lab.Text{EN: "others wait until somebody repairs it", ZH: "其他人一直等，直到有人来修"}, "bad"},
		{lab.Busy, lab.Text{EN: "others are turned away at once, and can try again", ZH: "其他人立即被拒，可以再试"}, "odd"},
		{lab.Duplicates, lab.Text{EN: "one order is sold twice", ZH: "一个订单卖了两次"}, "bad"},
		{lab.Aborts, lab.Text{EN: "the server ended one of them, whole: nothing is left half done", ZH: "服务器整体中止其中一个：没有半途而废的结果"}, "odd"},
		{lab.HalfDone, lab.Text{EN: "a part of a piece of work was committed", ZH: "一件事只提交了一部分"}, "bad"},
		{lab.Starves, lab.Text{EN: "some wait while those who came later are served", ZH: "有人一直等，后来的反而先得到"}, "bad"},
		{lab.Herds, lab.Text{EN: "all who wait are woken for one to go on", ZH: "为了放行一个，唤醒了所有等待者"}, "odd"},
		{lab.Repeats, lab.Text{EN: "of all who begin together one succeeds, and the others have worked for nothing", ZH: "同时开始的只有一个成功，其余的白做一遍"}, "odd"},
	}
}

func meaningOf(o lab.Outcome) meaning {
	for _, m := range meanings() {
		if m.Outcome == o {
			return m
		}
	}
	return meaning{o, lab.Text{}, "odd"}
}

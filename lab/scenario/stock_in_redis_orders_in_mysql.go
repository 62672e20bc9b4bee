package scenario

import (
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// stockInRedis is the usual design of a flash sale: Redis deducts, a queue has the orders that are to be written, and
// MySQL gets them later.
func stockInRedis() lab.Scenario {
	return lab.Scenario{
		Name: "stock-in-redis-orders-in-mysql", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Loses, "dies-before-it-queues"),
			byHand("naive", lab.Oversells, "gives-the-unit-back"),
			byHand("fixed", lab.Safe, "deducts-and-queues-in-one-script"),
			byHand("fixed", lab.Safe, "one-transaction"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Variant == "one-transaction" {
				return sellInOneTransaction(b)
			}
			f := newFlashSale(b)
			switch b.Case.Variant {
			case "dies-before-it-queues":
				b.Require(f.deduct("A"), "A gets the unit")
				b.Note("app-1", "dies-before-it-queues")
			case "gives-the-unit-back":
				f.giveBack()
			case "deducts-and-queues-in-one-script":
				f.inOneScript()
			}
			if !f.deduct("C") {
				b.Note("C", "sold-out")
			} else {
				f.insert(f.db, "C")
			}
			return f.verdict()
		},
	}
}

// A flashSale has one unit in Redis and no order.
type flashSale struct {
	b            *lab.Testbed
	redis        *redis.Client
	db           *sql.DB
	stock, queue string
}

func newFlashSale(b *lab.Testbed) *flashSale {
	db := newTables(b, "orders (id CHAR(36) PRIMARY KEY, customer VARCHAR(16))")
	f := &flashSale{b, b.Redis(), db, b.SKU + ":stock", b.SKU + ":orders"}
	b.Must("SET", f.redis.Set(b.Ctx, f.stock, 1, lab.Patience).Err())
	return f
}

// deduct takes a unit from the stock in Redis, if there is one.
func (f *flashSale) deduct(who string) bool {
	n, err := f.redis.Eval(f.b.Ctx, sellOne, []string{f.stock}).Int()
	f.b.Must("DECR", err)
	f.b.Statement(who, "redis", fmt.Sprintf("DECR if there is a unit: %d", n))
	return n >= 0
}

func (f *flashSale) push(who string) {
	f.b.Must("LPUSH", f.redis.LPush(f.b.Ctx, f.queue, who).Err())
	f.b.Statement(who, "redis", "LPUSH orders "+who)
}

// pop takes an order off the queue. From then on only the writer knows of it.
func (f *flashSale) pop() string {
	who, err := f.redis.RPop(f.b.Ctx, f.queue).Result()
	f.b.Must("RPOP", err)
	f.b.Statement("writer 1", "redis", "RPOP orders = "+who)
	return who
}

func (f *flashSale) insert(db *sql.DB, who string) {
	f.b.Exec("writer 1", db, "INSERT INTO orders VALUES (?, ?)", uuid.NewString(), who)
}

// insertWithoutReply writes an order whose reply is lost on the way.
func (f *flashSale) insertWithoutReply(statement, id, who string) {
	p, through := behindProxy(f.b, f.db)
	lost := f.b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains("INTO orders")})
	_, err := through.ExecContext(f.b.Ctx, statement, id, who)
	f.b.Require(err != nil, "the writer is told that the connection is lost")
	f.b.Sprung(lost, "order-is-written-reply-lost")
}

// giveBack takes an unknown outcome for a failure, and returns the unit.
func (f *flashSale) giveBack() {
	f.b.Require(f.deduct("A"), "A gets the unit")
	f.push("A")
	f.insertWithoutReply("INSERT INTO orders VALUES (?, ?)", uuid.NewString(), f.pop())
	f.b.Must("INCR", f.redis.Incr(f.b.Ctx, f.stock).Err())
	f.b.Statement("writer 1", "redis", "INCR stock")
}

// inOneScript writes the order into a stream in the step that deducts. A writer that dies before it has acknowledged
// the entry leaves it to the next one, and the order's id makes the second write harmless.
func (f *flashSale) inOneScript() {
	const sell = `if tonumber(redis.call('GET', KEYS[1])) < 1 then return -1 end
		redis.call('XADD', KEYS[2], '*', 'id', ARGV[1], 'customer', ARGV[2])
		return redis.call('DECR', KEYS[1])`
	const write, group = "INSERT IGNORE INTO orders VALUES (?, ?)", "writers"
	b, id := f.b, uuid.NewString()
	b.Must("XGROUP CREATE", f.redis.XGroupCreateMkStream(b.Ctx, f.queue, group, "0").Err())
	b.Must("EVAL", f.redis.Eval(b.Ctx, sell, []string{f.stock, f.queue}, id, "A").Err())
	b.Statement("A", "redis", "EVAL: XADD orders, DECR stock")
	b.Note("app-1", "dies-after-the-script")
	read, err := f.redis.XReadGroup(b.Ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: "writer 1", Streams: []string{f.queue, ">"}, Block: -1,
	}).Result()
	b.Must("XREADGROUP", err)
	entry := read[0].Messages[0]
	b.Statement("writer 1", "redis", "XREADGROUP orders")
	f.insertWithoutReply(write, fmt.Sprint(entry.Values["id"]), fmt.Sprint(entry.Values["customer"]))
	again, _, err := f.redis.XAutoClaim(b.Ctx, &redis.XAutoClaimArgs{
		Stream: f.queue, Group: group, Consumer: "writer 2", Start: "0",
	}).Result()
	b.Must("XAUTOCLAIM", err)
	b.Require(len(again) == 1 && again[0].ID == entry.ID, "the entry is still there")
	b.Exec("writer 2", f.db, write, again[0].Values["id"], again[0].Values["customer"])
	b.Must("XACK", f.redis.XAck(b.Ctx, f.queue, group, entry.ID).Err())
	b.Statement("writer 2", "redis", "XACK orders")
}

// verdict compares the orders with the stock.
func (f *flashSale) verdict() lab.Outcome {
	left, err := f.redis.Get(f.b.Ctx, f.stock).Int64()
	f.b.Must("GET", err)
	orders := f.b.Int("mysql", f.db, "SELECT COUNT(*) FROM orders")
	f.b.Evidence(lab.Balance, orders, "stock-and-orders", "initial", 1, "left", left, "orders", orders)
	switch {
	case orders+left > 1:
		f.b.Evidence(lab.Pair, nil, "two-orders-for-a-unit")
		return lab.Oversells
	case orders+left < 1:
		return lab.Loses
	}
	return lab.Safe
}

// sellInOneTransaction has stock and orders in one database. The connection of A breaks between the two statements.
func sellInOneTransaction(b *lab.Testbed) lab.Outcome {
	shop := newNaiveShop(b, 1)
	const deduct = "UPDATE stock SET quantity = quantity - 1 WHERE sku = 'sku' AND quantity >= 1"
	a, c := newSession(b, shop.db, "A"), newSession(b, shop.db, "C")
	a.do("BEGIN")
	a.do(deduct)
	b.Exec("mysql", shop.db, fmt.Sprintf("KILL %d", a.id))
	b.Note("A", "dies-between-the-two")
	c.do("BEGIN")
	c.do(deduct) // waits until the server has undone the work of A
	b.Require(c.count("SELECT ROW_COUNT()") == 1, "the unit is back")
	c.do("INSERT INTO orders (who, seen) VALUES ('C', 1)")
	c.do("COMMIT")
	return shop.verdict()
}

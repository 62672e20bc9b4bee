// Command consumer adds up what was sold, from the events that "stock relay" puts on Redis Streams. Each event has its
// effect exactly once, although it may be read several times: the inbox remembers it in the transaction of the effect.
// Start as many as you like; any of them may be killed at any moment. See docs/events.md.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

type movement struct { // what this consumer needs of one
	SKU    string
	Number uint64
	Sold   int64 // units; negative if an order was canceled
}

type consumer struct {
	streams     *redis.Client
	db          *sql.DB
	group, name string
	idle        time.Duration
	tracer      tracer
}

// apply does the effect of an event, once: a second time the inbox has it, and nothing happens. The effect is a sum, so
// the order does not matter. One that needs the order must look whether the inbox has number-1, and else leave the
// event for later: what was claimed from a dead consumer comes after what others have read since.
func (c *consumer) apply(ctx context.Context, text string) error {
	var e struct {
		ID, Traceparent string
		Data            movement
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return err
	}
	defer c.tracer.consuming(ctx, e.Traceparent)()
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, after Commit
	_, err = tx.ExecContext(ctx, "INSERT INTO inbox (id, sku, number) VALUES (?, ?, ?)",
		e.ID, e.Data.SKU, e.Data.Number)
	if known, ok := errors.AsType[*mysql.MySQLError](err); ok && known.Number == 1062 { // duplicate key
		return nil
	} else if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO sold (sku, units) VALUES (?, ?)"+
		" ON DUPLICATE KEY UPDATE units = units + VALUES(units)", e.Data.SKU, e.Data.Sold); err != nil {
		return err
	}
	return tx.Commit()
}

// take applies entries, and acknowledges those that have had their effect. The others stay pending, for a later claim.
func (c *consumer) take(ctx context.Context, stream string, entries []redis.XMessage) {
	for _, entry := range entries {
		text, _ := entry.Values["event"].(string)
		if err := c.apply(ctx, text); err != nil {
			log.Printf("%s %s: %v", stream, entry.ID, err)
			continue
		}
		c.streams.XAck(ctx, stream, c.group, entry.ID) // if that is lost, the event is claimed, and the inbox has it
	}
}

// round takes from every stream what another consumer was given and has not acknowledged for idle, because it is dead,
// and then what is new. idle must be longer than a round, or two work on one event, which only the inbox survives.
func (c *consumer) round(ctx context.Context) error {
	list, err := c.streams.SMembers(ctx, "stock:events").Result()
	if err != nil || len(list) == 0 {
		return errors.Join(errors.New("there is no stream to read"), err)
	}
	for _, stream := range list {
		err := c.streams.XGroupCreateMkStream(ctx, stream, c.group, "0").Err() // "0": from the first event on
		if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {        // it is there already
			return err
		}
		claim := &redis.XAutoClaimArgs{Stream: stream, Group: c.group, Consumer: c.name, MinIdle: c.idle, Start: "0"}
		left, _, err := c.streams.XAutoClaim(ctx, claim).Result()
		if err != nil {
			return err
		}
		c.take(ctx, stream, left)
	}
	fresh, err := c.streams.XReadGroup(ctx, &redis.XReadGroupArgs{ // redis.Nil: nothing new for a second
		Group: c.group, Consumer: c.name, Count: 100, Block: time.Second,
		Streams: slices.Concat(list, slices.Repeat([]string{">"}, len(list))),
	}).Result()
	for _, stream := range fresh {
		c.take(ctx, stream.Stream, stream.Messages)
	}
	return err
}

func main() {
	addr := flag.String("redis", "127.0.0.1:6379", "where the streams are")
	dsn := flag.String("mysql", "stock:stock@tcp(127.0.0.1:3306)/shop", "where tables inbox and sold are (schema.sql)")
	group := flag.String("group", "sold", "consumers of one group share the events")
	name := flag.String("name", "consumer-1", "of this consumer")
	idle := flag.Duration("idle", 30*time.Second, "an event that was not acknowledged for so long is claimed")
	flag.Parse()
	db, err := sql.Open("mysql", *dsn)
	if err != nil {
		log.Fatal(err)
	}
	c := &consumer{redis.NewClient(&redis.Options{Addr: *addr}), db, *group, *name, *idle, newTracer()}
	for {
		if err := c.round(context.Background()); err != nil && !errors.Is(err, redis.Nil) {
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
}

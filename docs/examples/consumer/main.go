// Command consumer adds up what was sold, from the events of the order service: from its stream in Redis, or as its
// webhook. An event may come several times, and a copy may come late. It has its effect exactly once, because the inbox
// has the number of the last event of each SKU, and is written in the transaction of the effect. Start as many as you
// like; any of them may be killed at any moment.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// apply has the effect of an event, unless the inbox has passed its number. The events of a SKU come in order, so
// nothing is missing between two, but what a person has skipped, or Redis has lost: look for a gap if that matters.
func apply(ctx context.Context, tx *sql.Tx, event []byte) error {
	var m struct { // what this consumer needs of a movement
		SKU          string
		Number, Sold int64 // Sold is negative if an order was canceled
	}
	if err := json.Unmarshal(event, &m); err != nil {
		return err
	}
	passed, err := tx.ExecContext(ctx, "INSERT INTO inbox (sku, number) VALUES (?, ?)"+
		" ON DUPLICATE KEY UPDATE number = GREATEST(number, VALUES(number))", m.SKU, m.Number)
	if err != nil {
		return err
	}
	if changed, err := passed.RowsAffected(); err != nil || changed == 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO sold (sku, units) VALUES (?, ?)"+
		" ON DUPLICATE KEY UPDATE units = units + VALUES(units)", m.SKU, m.Sold)
	return err
}

// within runs do in a transaction.
func within(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// read applies what is new in a stream, and returns how many events that was. The place up to which it has read is kept
// in the transaction of the effects, too. It is locked, so one consumer reads at a time, and another goes on when that
// one dies. A consumer group of Redis would give two events of a SKU to two consumers, in whatever order.
func read(ctx context.Context, db *sql.DB, client redis.Cmdable, stream string) (n int, err error) {
	err = within(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO places VALUES (?, '0-0')"+
			" ON DUPLICATE KEY UPDATE entry = entry", stream); err != nil {
			return err
		}
		var place string
		row := tx.QueryRowContext(ctx, "SELECT entry FROM places WHERE stream = ? FOR UPDATE", stream)
		if err := row.Scan(&place); err != nil {
			return err
		}
		entries, err := client.XRangeN(ctx, stream, "("+place, "+", 100).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		n = len(entries)
		for _, e := range entries {
			text, _ := e.Values["event"].(string) // e.Values["id"] is its name: SKU.number
			if err := apply(ctx, tx, []byte(text)); err != nil {
				return fmt.Errorf("%s: %w", e.ID, err)
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE places SET entry = ? WHERE stream = ?", entries[n-1].ID, stream)
		return err
	})
	return n, err
}

// webhook answers 204 when an event has had its effect. After any other answer, or none, the event comes again.
func webhook(db *sql.DB, secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = verify(r.Header, body, secret)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := within(r.Context(), db, func(tx *sql.Tx) error { return apply(r.Context(), tx, body) }); err != nil {
			log.Printf("%s: %v", r.Header.Get("Webhook-Id"), err)
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// verify checks a signature, as https://www.standardwebhooks.com says. The libraries there do it, too.
func verify(h http.Header, body []byte, secret string) error {
	id, at := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp") // the id is the name of the event, with "~" for "."
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return errors.New("the secret cannot be read")
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	seconds, err := strconv.ParseInt(at, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)).Abs(); err != nil || age > 5*time.Minute {
		return errors.New("the time is wrong")
	}
	for given := range strings.FieldsSeq(h.Get("Webhook-Signature")) { // one for each secret of the sender
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(given, "v1,"))
		if err == nil && hmac.Equal(sum, mac.Sum(nil)) {
			return nil
		}
	}
	return errors.New("the signature is wrong")
}

func main() {
	address := flag.String("redis", "127.0.0.1:6379", "where the stream is")
	stream := flag.String("stream", "orders", "its name")
	listen := flag.String("listen", "", "be a webhook at this address, instead of reading the stream")
	secret := flag.String("secret", "", "that requests to the webhook are signed with: whsec_...")
	dsn := flag.String("mysql", "stock:stock@tcp(127.0.0.1:3306)/shop", "where the tables are (schema.sql)")
	flag.Parse()
	db, err := sql.Open("mysql", *dsn)
	if err != nil {
		log.Fatal(err)
	}
	if *listen != "" {
		server := http.Server{Addr: *listen, Handler: webhook(db, *secret), ReadTimeout: 10 * time.Second}
		log.Fatal(server.ListenAndServe())
	}
	client := redis.NewClient(&redis.Options{Addr: *address})
	for {
		n, err := read(context.Background(), db, client, *stream)
		if err != nil {
			log.Print(err)
		}
		if n == 0 || err != nil {
			time.Sleep(time.Second)
		}
	}
}

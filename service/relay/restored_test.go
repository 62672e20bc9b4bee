package relay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/relay"
)

// An inbox is a receiver that drops what it knows by its id.
type inbox struct {
	mu      sync.Mutex
	known   map[string]relay.Event
	repeats int
}

func (i *inbox) take(text []byte) error {
	var e relay.Event
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil {
		i.known = make(map[string]relay.Event)
	}
	if _, there := i.known[e.ID]; there {
		i.repeats++
	}
	i.known[e.ID] = e
	return nil
}

// wants wants every movement of the ledger once in the inbox, and lost more, which the ledger has no more.
func (i *inbox) wants(t *testing.T, s *shelf, sku service.SKU, lost, repeats int) {
	t.Helper()
	all, err := s.Movements(t.Context(), sku, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range all {
		var ids []string
		for id, e := range i.known {
			if e.Data == m {
				ids = append(ids, id)
			}
		}
		if len(ids) != 1 {
			t.Errorf("%+v had its effect %d times: %v", m, len(ids), ids)
		}
	}
	if len(i.known) != len(all)+lost || i.repeats != repeats {
		t.Errorf("%d effects of %d movements and %d that are lost; %d repeats, want %d",
			len(i.known), len(all), lost, i.repeats, repeats)
	}
}

// copied keeps a copy of the ledger, in which the last delivery is not recorded, and returns how to go back to it.
func (s *shelf) copied(t *testing.T, sku service.SKU) (restore func()) {
	t.Helper()
	run := func(format string, table string) {
		t.Helper()
		if _, err := s.db.Exec(strings.ReplaceAll(format, "TABLE_", table)); err != nil {
			t.Fatal(err)
		}
	}
	tables := []string{"stock", "movements", "deliveries"}
	for _, table := range tables {
		run("CREATE TABLE copy_TABLE_ AS SELECT * FROM TABLE_", table)
	}
	if _, err := s.db.Exec("UPDATE copy_deliveries SET number = number - 1 WHERE sku = ?", string(sku)); err != nil {
		t.Fatal(err)
	}
	return func() {
		for _, table := range tables {
			run("DELETE FROM TABLE_", table)
			run("INSERT INTO TABLE_ SELECT * FROM copy_TABLE_", table)
		}
	}
}

// A store is restored from an older copy, and sells. Its events have numbers that the receiver of the webhook knows, and
// none of them is dropped or has its effect twice. The relay says what it sees.
func TestARestoredLedgerOverAWebhook(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	var receiver inbox
	url := listen(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err = errors.Join(err, receiver.take(text)); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	var log bytes.Buffer
	webhook, err := relay.NewWebhook(relay.WebhookOptions{
		URL: url, Secrets: []string{newSecret}, AllowInternal: true, Timeout: time.Minute,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = webhook.Close() })
	relayed := func(n int) {
		t.Helper()
		s.receive(t, "book", n)
		stop := start(t, quick(s, webhook, newLatch()))
		emptied(t, s)
		stop()
	}
	relayed(4)
	restore := s.copied(t, "book")
	relayed(3)
	if log.Len() > 0 {
		t.Errorf("before the restoration: %s", &log)
	}
	restore()
	relayed(2) // and what the copy did not know to be delivered
	receiver.wants(t, s, "book", 3, 1)
	relayed(3)
	receiver.wants(t, s, "book", 3, 1)
	if got := log.String(); strings.Count(got, "gone back to an older copy") != 1 ||
		!strings.Contains(got, "sku=book number=5 ") {
		t.Errorf("the log says %q, want once what is wrong with book/5", got)
	}
}

// The same with streams, whose entries were taken and removed. A stream cannot have a number twice: the event is
// parked, a person deletes the stream and has it sent again.
func TestARestoredLedgerOverStreams(t *testing.T) {
	t.Parallel()
	for _, trimmed := range []bool{false, true} {
		t.Run(fmt.Sprint("trimmed ", trimmed), func(t *testing.T) {
			t.Parallel()
			s, _ := newShelf(t)
			client := dialRedis(t, stacktest.Redis(t).Addr)
			key := relay.StreamKey("book")
			var consumer inbox
			consume := func() {
				t.Helper()
				err := client.XGroupCreate(t.Context(), key, "g", "0").Err()
				if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
					t.Fatal(err)
				}
				read, err := client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
					Group: "g", Consumer: "c", Streams: []string{key, ">"}, Count: 1000, Block: -1,
				}).Result()
				if errors.Is(err, redis.Nil) {
					return
				} else if err != nil {
					t.Fatal(err)
				}
				for _, entry := range read[0].Messages {
					text, _ := entry.Values[relay.StreamField].(string)
					if err := consumer.take([]byte(text)); err != nil {
						t.Fatal(err)
					}
					client.XAck(t.Context(), key, "g", entry.ID)
				}
			}
			c := quick(s, relay.NewStreams(client, nil), newLatch())
			relayed := func(n int) {
				t.Helper()
				s.receive(t, "book", n)
				stop := start(t, c)
				emptied(t, s)
				stop()
				consume()
			}
			relayed(98)
			restore := s.copied(t, "book")
			relayed(1)
			if trimmed {
				relayed(1) // the hundredth trims, but what nobody has taken yet
				relayed(100)
				if left := stream(t, client, "book"); len(left) != 100 {
					t.Fatalf("the stream has %v", left)
				}
			}
			lost := 1
			if trimmed {
				lost = 102
			}
			restore()
			s.receive(t, "book", 2)
			stop := start(t, c)
			stacktest.Eventually(t, time.Minute, "a movement with a number that the stream had is parked",
				func() (bool, string) {
					letters, err := s.Parked(t.Context(), "", 10)
					return len(letters) == 1 && letters[0].Number == 99 &&
						strings.Contains(letters[0].Reason, "restored from an older copy"), fmt.Sprint(letters, err)
				})
			consume()
			if err := client.Del(t.Context(), key).Err(); err != nil {
				t.Fatal(err)
			}
			if err := s.Decide(t.Context(), "book", 99, order.Resend); err != nil {
				t.Fatal(err)
			}
			emptied(t, s)
			stop()
			consume()
			consumer.wants(t, s, "book", lost, 0)
		})
	}
}

package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// readyBound is how long instances may take until each sells from each store, or refuses to.
const readyBound = time.Minute

// A fleet has the instances of a part. It is a target that sends deductions to all of them in turn. Stock is set and
// read at the first one.
type fleet struct {
	*loadtest.Client // of the first one
	members          []*member
	mysql            string // what MySQL reports about itself
	next             atomic.Uint64
}

// A member is an instance.
type member struct {
	*server.Server
	client  *loadtest.Client
	mysql   int               // number of its DSN, from 1
	refuses map[string]string // as in Instance
}

// open starts an instance for each DSN, and at least two. It returns when each of them sells from each store, or
// refuses to because MySQL is a cluster with several writers.
func (t *test) open(ctx context.Context, stores []string, env ...string) (f *fleet, err error) {
	f = new(fleet)
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	n := 2
	if t.schema != nil {
		n = max(n, len(t.schema.dsns))
	}
	for i := range n {
		m := new(member)
		own := env
		if t.schema != nil {
			m.mysql = 1 + i%len(t.schema.dsns)
			own = append(own[:len(own):len(own)], "STOCK_MYSQL_DSN="+t.schema.dsns[m.mysql-1])
		}
		started, err := t.stack.Serve(ctx, 1, own...)
		if err != nil {
			return f, err
		}
		m.Server = started[0]
		f.members = append(f.members, m)
		if m.client, err = loadtest.NewClient(m.URL, token, t.Plan.Concurrency); err != nil {
			return f, err
		}
		m.client.Speak(t.Lang)
	}
	f.Client = f.members[0].client
	return f, t.settle(ctx, f, stores)
}

// settle waits until each instance sells from each store, or refuses to.
func (t *test) settle(ctx context.Context, f *fleet, stores []string) error {
	within, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	for _, m := range f.members {
		if err := t.stack.AwaitReady(within, m.Server); err != nil {
			return failure("not-ready", "why", err)
		}
		if err := f.look(ctx, m, stores, t.Lang); err != nil {
			return err
		}
	}
	return nil
}

// look asks an instance which stores it sells from.
func (f *fleet) look(ctx context.Context, m *member, stores []string, lang string) error {
	var reply struct{ Backends map[string]loadtest.Backend } // also of an instance that is not ready
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Language", lang)
	answer, err := m.client.Ask(req, phrases.Say("not-answering", "name", m.Name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer.Body, &reply); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	m.refuses = make(map[string]string)
	for _, store := range stores {
		b := reply.Backends[store]
		if !b.Up {
			m.refuses[store] = b.Reason
		}
		if store == onMySQL && b.Server != "" {
			f.mysql = b.Server
		}
	}
	return nil
}

// refusal returns why an instance does not sell from a store, or "".
func (f *fleet) refusal(store string) (why string) {
	for _, m := range f.members {
		why = cmp.Or(why, m.refuses[store])
	}
	return why
}

func (f *fleet) instances() (list []Instance) {
	for _, m := range f.members {
		list = append(list, Instance{m.Name, m.mysql, m.refuses})
	}
	return list
}

// close stops the instances.
func (f *fleet) close() error {
	var failed []error
	for _, m := range f.members {
		if m.client != nil {
			m.client.Close()
		}
		failed = append(failed, m.Stop())
	}
	return errors.Join(failed...)
}

// Deduct implements loadtest.Target.
func (f *fleet) Deduct(ctx context.Context, r loadtest.Request) loadtest.Reply {
	return f.members[f.next.Add(1)%uint64(len(f.members))].client.Deduct(ctx, r)
}

// Warm opens n connections to each instance.
func (f *fleet) Warm(ctx context.Context, n int) {
	for _, m := range f.members {
		m.client.Warm(ctx, n)
	}
}

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
)

// How long instances may take until one sells from each store, and then until all of them do. On a cluster with several
// writers all but one refuse to.
const (
	readyBound = time.Minute
	allBound   = 6 * time.Second
)

// A fleet has the instances of a part.
type fleet struct {
	members []*member
	mysql   string // what MySQL reports about itself
}

// A member is an instance.
type member struct {
	*stack.Server
	client  *loadtest.Client
	mysql   int               // number of its DSN, from 1
	refuses map[string]string // as in Instance
}

// open starts an instance for each DSN, and at least two. It returns when one of them sells from each store.
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
	return f, f.settle(ctx, stores, t.Lang)
}

// settle waits until an instance sells from each store, and then for the others.
func (f *fleet) settle(ctx context.Context, stores []string, lang string) error {
	began := time.Now()
	var some time.Time // when an instance sold from each store
	for {
		all, each := true, true
		for _, m := range f.members {
			if err := f.look(ctx, m, stores, lang); err != nil {
				return err
			}
			all = all && len(m.refuses) == 0
		}
		why := ""
		for _, store := range stores {
			if f.first(store) < 0 {
				each, why = false, store+": "+f.members[0].refuses[store]
			}
		}
		if each && some.IsZero() {
			some = time.Now()
		}
		switch {
		case all, each && time.Since(some) > allBound:
			return nil
		case !each && time.Since(began) > readyBound:
			return failure("not-ready", "why", why)
		}
		if err := loadtest.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
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

// first returns the index of the first instance that sells from a store, or -1.
func (f *fleet) first(store string) int {
	for i, m := range f.members {
		if _, refuses := m.refuses[store]; !refuses {
			return i
		}
	}
	return -1
}

// clients returns the clients of all instances, those that sell from the store first.
func (f *fleet) clients(store string) (list []*loadtest.Client) {
	var others []*loadtest.Client
	for _, m := range f.members {
		if _, refuses := m.refuses[store]; refuses {
			others = append(others, m.client)
		} else {
			list = append(list, m.client)
		}
	}
	return append(list, others...)
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

// A spread is a target that sends deductions to all instances in turn. Stock is set and read at the first one that
// sells from the store.
type spread struct {
	*loadtest.Client
	all  []*loadtest.Client
	next atomic.Uint64
}

func (f *fleet) target(store string) *spread {
	s := &spread{all: f.clients(store)}
	s.Client = s.all[0]
	return s
}

// Deduct implements loadtest.Target.
func (s *spread) Deduct(ctx context.Context, r loadtest.Request) loadtest.Reply {
	return s.all[s.next.Add(1)%uint64(len(s.all))].Deduct(ctx, r)
}

// Warm opens n connections to each instance.
func (s *spread) Warm(ctx context.Context, n int) {
	for _, c := range s.all {
		c.Warm(ctx, n)
	}
}

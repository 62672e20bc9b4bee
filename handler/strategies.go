package handler

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"example.com/stock/internal/words"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

type strategyReply struct {
	Name         string   `json:"name"`
	Endpoint     string   `json:"endpoint"`
	Summary      string   `json:"summary"`
	Stores       []string `json:"stores"`
	DefaultStore string   `json:"default_store"`
	Blocking     bool     `json:"blocking"`
	Available    bool     `json:"available"` // the lock's servers and at least one store are up
	Reason       string   `json:"reason,omitempty"`
	// DownStores maps each of Stores that cannot be used now to the reason.
	DownStores map[string]string `json:"down_stores,omitempty"`
	// Warnings maps each server that the lock or a store needs, and that limits its use, to the limit.
	Warnings map[string]string `json:"warnings,omitempty"`
	Promise  promiseReply      `json:"promise"`
	// RoundTrips is the number of round trips to acquire and release the lock without contention; 0: the lock needs
	// no server.
	RoundTrips int `json:"round_trips"`
}

type promiseReply struct {
	Exclusive   bool         `json:"exclusive"`
	Scope       driver.Scope `json:"scope"`
	Fenced      bool         `json:"fenced"`
	Fair        bool         `json:"fair"`
	Blocking    bool         `json:"blocking"`
	Reentrant   bool         `json:"reentrant"`
	SignalsLoss bool         `json:"signals_loss"`
	// FreedAfterCrash is the longest time in seconds from a holder's crash to the next holder; null: never.
	FreedAfterCrash *float64 `json:"freed_after_crash_seconds"`
}

// strategies lists the catalogue, weakest first, with the reason for each strategy that cannot be used now. It also
// returns what the servers report about themselves, because the reason may depend on this.
func (h *handler) strategies(c *gin.Context) error {
	lang := negotiate(c)
	list := make([]strategyReply, len(h.Strategies))
	for i, s := range h.Strategies {
		list[i] = strategyReply{
			Name: s.Name, Endpoint: s.Endpoint, Summary: s.Summary, DefaultStore: s.Stores[0].Name,
			Blocking: s.Promise.Blocking, Promise: promiseOf(s.Promise), DownStores: make(map[string]string),
			RoundTrips: s.RoundTrips,
		}
		for _, store := range s.Stores {
			list[i].Stores = append(list[i].Stores, store.Name)
			if err := store.Backend.Err(); err != nil {
				list[i].DownStores[store.Name] = reasonOf(err).In(lang)
			}
			list[i].warn(store.Backend, lang)
		}
		for _, server := range s.Needs {
			list[i].warn(server, lang)
		}
		if err := s.err(); err != nil {
			list[i].Reason = reasonOf(err).In(lang)
		} else {
			list[i].Available = true
		}
	}
	c.JSON(http.StatusOK, gin.H{"strategies": list, "servers": h.servers()})
	return nil
}

func (r *strategyReply) warn(server Backend, lang string) {
	if warning := server.Warning(); warning != nil {
		if r.Warnings == nil {
			r.Warnings = make(map[string]string)
		}
		r.Warnings[server.Name()] = words.Of(warning).In(lang)
	}
}

func promiseOf(p driver.Promise) promiseReply {
	r := promiseReply{
		Exclusive: p.Exclusive, Scope: p.Scope, Fenced: p.Fenced, Fair: p.Fair,
		Blocking: p.Blocking, Reentrant: p.Reentrant, SignalsLoss: p.SignalsLoss,
	}
	if p.FreedAfterCrash != driver.Forever {
		seconds := p.FreedAfterCrash.Seconds()
		r.FreedAfterCrash = &seconds
	}
	return r
}

// err returns nil if s can sell from at least one store, and otherwise the reason why it cannot.
func (s Strategy) err() error {
	var err error
	for _, store := range s.Stores {
		if err = s.errOn(store); err == nil {
			return nil
		}
	}
	return err
}

// errOn returns nil if s can sell from store, and otherwise the reason why it cannot.
func (s Strategy) errOn(store Store) error {
	for _, b := range s.Needs {
		if err := b.Err(); err != nil {
			return err
		}
	}
	return store.Backend.Err()
}

// sells returns what can be sold from each store now, and the reason why the instance is not ready, or "". The instance
// is ready if a strategy can sell from ReadyStore. If ReadyStore is empty or no strategy uses it, any store is enough.
func (h *handler) sells() (stores map[string]storeReply, why string) {
	stores = make(map[string]storeReply)
	some := false
	for _, s := range h.Strategies {
		for _, store := range s.Stores {
			reply := stores[store.Name]
			reply.Of++
			if err := s.errOn(store); err == nil {
				reply.Sells, reply.Reason = true, ""
				reply.Strategies++
				some = true
			} else {
				if !reply.Sells {
					reply.Reason = reasonOf(err).EN
				}
				if errors.Is(err, lock.ErrDenied) {
					if reply.Denied == nil {
						reply.Denied = make(map[string]string)
					}
					reply.Denied[s.Name] = reasonOf(err).EN
				}
			}
			stores[store.Name] = reply
		}
	}
	if byDefault, used := stores[h.ReadyStore]; used && !byDefault.Sells {
		return stores, "nothing can be sold from " + h.ReadyStore + ", the default store"
	}
	if !some {
		return stores, "no strategy is available"
	}
	return stores, ""
}

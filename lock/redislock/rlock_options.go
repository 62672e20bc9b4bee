package redislock

import (
	"cmp"
	_ "embed"
	"log/slog"
	"time"

	// the scripts

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
)

var (
	//go:embed rlock_enter.lua
	rlockEnterSource string
	//go:embed rlock_leave.lua
	rlockLeaveSource string
	//go:embed rlock_renew.lua
	rlockRenewSource string
)

// RLockOptions are the options of an RLock. A zero field means its default.
type RLockOptions struct {
	// Lease is the time from the last renewal until the server frees the key; default 30 s. It is renewed after each
	// third of this time. Redisson calls it lockWatchdogTimeout.
	Lease time.Duration
	// LeaseTime, if not 0, replaces Lease and turns the renewal off: the server frees the key after this time, even
	// if the holder still works. It is the leaseTime of Redisson's tryLock(waitTime, leaseTime). Default 0: the lease
	// is renewed.
	LeaseTime time.Duration
	Logger    *slog.Logger // logs that the subscription broke; default: none
}

// NewRLock returns an RLock on c. Close it when all leases have ended. If an option is invalid, Acquire returns an
// error that names it.
func NewRLock(c redis.UniversalClient, o RLockOptions) *RLock {
	def(&o.Lease, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	lease := cmp.Or(o.LeaseTime, o.Lease)
	return &RLock{
		server: server{
			c, "rlock",
			[]string{""},
			readHashes, lease,
			Replicas{},
			newCleanup(),
			cmp.Or(driver.AtLeast("Lease", o.Lease, driver.MinLease), leaseTime(o.LeaseTime)),
		},
		o: o, process: uuid.NewString(), wakers: newWakers(c, o.Logger),
		enter: redisscript.New(rlockEnterSource),
		leave: redisscript.New(rlockLeaveSource),
		renew: redisscript.New(rlockRenewSource),
	}
}

// Promise is what it promises with the defaults of its options.
func (*RLock) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Blocking: true, Reentrant: true, SignalsLoss: true,
		FreedAfterCrash: 30 * time.Second,
	}
}

// Close ends the subscription and the waits, with lock.ErrClosed. It drops the releases that have not reached the
// server yet; their keys expire with the lease. Leases are not affected.
func (r *RLock) Close() error {
	r.cleanup.Close()
	return r.wakers.close()
}

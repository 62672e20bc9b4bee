package access

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// A Source returns a JWKS.
type Source func(context.Context) ([]byte, error)

// Keys are the known keys of an issuer. Run reads them; until it has, every token is refused with ErrKeys.
//
// All reading happens in Run, one after the other and with a pause, however many tokens name a key that is unknown. A
// source that fails changes nothing: tokens of known keys stay valid. A key that is gone from the source is unknown
// from the next reading on.
type Keys struct {
	source Source
	pace   Pace
	log    *slog.Logger

	known atomic.Pointer[keySet]
	asked chan struct{} // a token names an unknown key

	mu   sync.Mutex
	read chan struct{} // closed by the next reading
	last time.Time     // end of the last reading
	good time.Time     // end of the last reading that succeeded
	err  error         // of the last reading
}

// A Pace says how often keys are read.
type Pace struct {
	Every time.Duration // without a reason, so that a removed key becomes unknown
	Pause time.Duration // at least between two readings
	Limit time.Duration // of one reading
	Wait  time.Duration // a token waits at most that long for its key
}

// IssuerPace is for an issuer in the network, FilePace for a file on this computer.
func IssuerPace() Pace {
	return Pace{5 * time.Minute, 10 * time.Second, 5 * time.Second, 2 * time.Second}
}

func FilePace() Pace { return Pace{10 * time.Second, time.Second, 5 * time.Second, 2 * time.Second} }

type keySet struct {
	edition uint64
	keys    map[string]key
}

func NewKeys(source Source, pace Pace, log *slog.Logger) *Keys {
	k := &Keys{source: source, pace: pace, log: log, asked: make(chan struct{}, 1), read: make(chan struct{})}
	k.known.Store(&keySet{})
	return k
}

func (k *Keys) none() bool { return len(k.known.Load().keys) == 0 }

// edition counts the changes of the keys.
func (k *Keys) edition() uint64 { return k.known.Load().edition }

// Read reads the keys once, so that a file that is wrong keeps an instance from starting.
func (k *Keys) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.pace.Limit)
	defer cancel()
	text, err := k.source(ctx)
	var keys map[string]key
	if err == nil {
		keys, err = parseKeys(text)
	}
	if err == nil {
		k.store(keys)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if (err == nil) != (k.err == nil) { // a source that stays down is logged once
		if err != nil {
			k.log.Warn("the keys of tokens cannot be read: only tokens of known keys are valid", "err", err)
		} else {
			k.log.Info("the keys of tokens can be read again")
		}
	}
	k.err, k.last = err, time.Now()
	if err == nil {
		k.good = k.last
	}
	close(k.read)
	k.read = make(chan struct{})
	return err
}

// ReadAt returns when the keys were last read successfully; the zero time if never. A key itself has no end.
func (k *Keys) ReadAt() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.good
}

func (k *Keys) store(keys map[string]key) {
	old := k.known.Load()
	if maps.EqualFunc(old.keys, keys, func(a, b key) bool { return reflect.DeepEqual(a, b) }) {
		return
	}
	k.known.Store(&keySet{old.edition + 1, keys})
	k.log.Info("keys of tokens", "number", len(keys))
}

// Run reads the keys until ctx ends: now and then, and soon after a token has named a key that is unknown.
func (k *Keys) Run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = k.Read(ctx) // it is logged, and find returns it
		pause(ctx, k.pace.Pause)
		every := time.NewTimer(max(k.pace.Every-k.pace.Pause, 0))
		if k.failed() {
			every.Reset(0) // again after the pause
		}
		select {
		case <-ctx.Done():
		case <-every.C:
		case <-k.asked:
		}
		every.Stop()
	}
}

func (k *Keys) failed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err != nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// find returns the key of that kid. For an unknown one it asks Run to read the keys, and waits for that if it can be
// now: within the pause after a reading, the key stays unknown.
func (k *Keys) find(ctx context.Context, kid string) (key, error) {
	if found, ok := k.known.Load().keys[kid]; ok {
		return found, nil
	}
	if kid == "" {
		return key{}, refused("key")
	}
	k.mu.Lock()
	read, rested := k.read, time.Since(k.last) >= k.pace.Pause
	k.mu.Unlock()
	if rested {
		select {
		case k.asked <- struct{}{}:
		default: // another token has asked
		}
		ctx, cancel := context.WithTimeout(ctx, k.pace.Wait)
		defer cancel()
		select {
		case <-read:
		case <-ctx.Done():
			return key{}, ErrKeys
		}
		if found, ok := k.known.Load().keys[kid]; ok {
			return found, nil
		}
	}
	if k.failed() || k.none() {
		return key{}, ErrKeys
	}
	return key{}, refused("key")
}

package zklock

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// checkIdentity returns an error for credentials that no server accepts, and for nodes that nobody could use.
func (c Config) checkIdentity() error {
	for _, credentials := range c.Credentials {
		if user, _, found := strings.Cut(credentials, ":"); !found || user == "" {
			return errors.New("credentials must be user:password") // not quoted: they are secret
		}
	}
	if c.CreatorOnly && len(c.Credentials) == 0 && c.Dialer == nil {
		return errors.New("nodes for their creator alone need credentials, or a dialer with a client certificate")
	}
	return nil
}

// acl is the ACL of our nodes. With the scheme "auth" the server puts in every identity of the connection. If the
// connection has none, it refuses the request (zk.ErrInvalidACL), so no node is open by mistake.
func (s *Session) acl() []zk.ACL {
	if s.config.CreatorOnly {
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll) // as in Curator, so that operators can unlock
}

// logDenial logs a request that the server does not allow, with its path. With wrong credentials every request is one.
func (s *Session) logDenial(err error) {
	if s.denials.due() {
		const why = "zookeeper does not allow a request: the node belongs to other zookeeper.credentials or another " +
			"client certificate"
		s.log.Error(why, "error", err, "credentials", len(s.config.Credentials) > 0, "creator", s.config.CreatorOnly)
	}
}

// An occasional is something that is done at most once a minute. Its value is when it was done last, in nanoseconds
// since 1970.
type occasional struct{ last atomic.Int64 }

func (o *occasional) due() bool {
	now, last := time.Now().UnixNano(), o.last.Load()
	return now-last >= int64(time.Minute) && o.last.CompareAndSwap(last, now)
}

func (o *occasional) reset() { o.last.Store(0) }

package zklock

import (
	"encoding/binary"
	"errors"
	"strings"
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

// Numbers of the protocol; see link.Read.
const (
	opAuth    = 100
	xidOfAuth = -4 // as the Java client; the library ignores replies to negative numbers
)

// authRequests returns one request for each of the credentials, as bytes of the protocol.
func authRequests(all []string) (packets []byte) {
	text := func(p []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint32(p, uint32(len(s))), s...)
	}
	number := func(p []byte, n int32) []byte { return binary.BigEndian.AppendUint32(p, uint32(n)) }
	for _, credentials := range all {
		p := number(number(number(nil, xidOfAuth), opAuth), 0)
		p = text(text(p, "digest"), credentials)
		packets = append(packets, text(nil, string(p))...)
	}
	return packets
}

// logDenial logs a request that the server does not allow, with its path, at most once a minute: with wrong
// credentials every request is one.
func (s *Session) logDenial(err error) {
	now, last := time.Now().UnixNano(), s.denied.Load()
	if now-last >= int64(time.Minute) && s.denied.CompareAndSwap(last, now) {
		const why = "zookeeper does not allow a request: the node belongs to other zookeeper.credentials or another " +
			"client certificate"
		s.log.Error(why, "error", err, "credentials", len(s.config.Credentials) > 0, "creator", s.config.CreatorOnly)
	}
}

// Package credentials makes TLS connections from certificate files, reads secrets from files, and reads all of these
// files again when they change.
//
// It reads a changed file at the next handshake. An open connection goes on as it is: it is not closed when its
// certificate is renewed or expires. A client always checks the server's certificate and name, and never falls back to
// a connection without TLS.
package credentials

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Files are PEM files, and what they are for.
type Files struct {
	// Setting is the prefix of the settings that name the files: Setting and "ca", "cert", "key"; of a listener,
	// "client_ca".
	Setting string
	// CA has the certificates that sign those of the other side. During a rotation it has the old one and the new one.
	// Empty, for a client: those of the system. Empty, for a listener: clients need no certificate.
	CA string
	// Cert and Key are the certificate that we present, with its chain, and its key. A client may have none.
	Cert, Key string
	// ServerName is the name in the server's certificate; empty: the host of the address. A listener has none.
	ServerName string
	MinVersion uint16        // tls.VersionTLS12 or tls.VersionTLS13; 0: TLS 1.2
	Timeout    time.Duration // of DialContext, with the handshake; 0: 5 s
}

// A Dialer makes connections to one server, or to all nodes of one. It is safe for concurrent use.
type Dialer struct {
	files  Files
	config func() *tls.Config
}

// New reads the files of a client. The error names the setting and the file.
func New(f Files, log *slog.Logger) (*Dialer, error) {
	config, err := f.follow("ca", f.base(), log, func(c *tls.Config, pool *x509.CertPool) { c.RootCAs = pool })
	if err != nil {
		return nil, err
	}
	return &Dialer{f, config}, nil
}

// Client returns the configuration of one connection to a server at addr, which is a host with or without a port.
func (d *Dialer) Client(addr string) *tls.Config {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	c := d.config().Clone()
	c.ServerName = cmp.Or(d.files.ServerName, host)
	return c
}

// DialContext opens a connection and completes its handshake.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.files.Timeout, 5*time.Second))
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, d.Client(addr))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if errors.Is(err, context.DeadlineExceeded) { // Redis without TLS waits for the end of the line
			return nil, fmt.Errorf("TLS handshake with %s: no reply (does it speak TLS on this port?): %w", addr, err)
		}
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return secure, nil
}

// Server returns the configuration of a listener for HTTP/1.1. With a CA, each client must present a certificate of
// it, and no session is resumed, so that a certificate of a CA that was removed lets nobody in.
func Server(f Files, log *slog.Logger) (*tls.Config, error) {
	if f.Cert == "" {
		return nil, &FileError{File{f.Setting + "cert", ""}, errors.New("a listener needs a certificate")}
	}
	outer := f.base()
	outer.NextProtos = []string{"http/1.1"}
	config, err := f.follow("client_ca", outer.Clone(), log, func(c *tls.Config, pool *x509.CertPool) {
		c.ClientCAs, c.ClientAuth, c.SessionTicketsDisabled = pool, tls.RequireAndVerifyClientCert, true
	})
	if err != nil {
		return nil, err
	}
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return config(), nil }
	return outer, nil
}

// End returns when the certificate that a listener or a client presents at its next handshake ends: the earliest end in
// its chain. It is zero if there is none. It reads files that have changed.
func End(c *tls.Config) (first time.Time) {
	if c.GetConfigForClient != nil {
		if now, err := c.GetConfigForClient(nil); err == nil {
			c = now
		}
	}
	for _, certificate := range c.Certificates {
		for _, der := range certificate.Certificate {
			if x, err := x509.ParseCertificate(der); err == nil && (first.IsZero() || x.NotAfter.Before(first)) {
				first = x.NotAfter
			}
		}
	}
	return first
}

func (f Files) base() *tls.Config {
	return &tls.Config{MinVersion: max(f.MinVersion, tls.VersionTLS12)}
}

// follow returns a function that adds what the files contain to base. trust is called with the certificates of f.CA,
// whose setting is ca.
func (f Files) follow(
	ca string, base *tls.Config, log *slog.Logger, trust func(*tls.Config, *x509.CertPool),
) (func() *tls.Config, error) {
	var files []File
	authority := File{f.Setting + ca, f.CA}
	cert, key := File{f.Setting + "cert", f.Cert}, File{f.Setting + "key", f.Key}
	if f.CA != "" {
		files = append(files, authority)
	}
	switch {
	case f.Cert != "" && f.Key != "":
		files = append(files, cert, key)
	case f.Cert != "":
		return nil, &FileError{key, errors.New("is empty, but the certificate needs its key")}
	case f.Key != "":
		return nil, &FileError{cert, errors.New("is empty, but the key needs its certificate")}
	}
	if len(files) == 0 {
		return func() *tls.Config { return base }, nil
	}
	fresh, err := NewFresh(files, func(contents [][]byte) (*tls.Config, error) {
		c := base.Clone()
		if f.CA != "" {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(contents[0]) {
				return nil, &FileError{authority, errors.New("has no certificate in PEM")}
			}
			trust(c, pool)
		}
		if f.Cert != "" {
			last := len(contents) - 1
			pair, err := tls.X509KeyPair(contents[last-1], contents[last])
			if err != nil {
				return nil, &FileError{cert, err}
			}
			c.Certificates = []tls.Certificate{pair}
		}
		return c, nil
	}, log)
	if err != nil {
		return nil, err
	}
	return fresh.Get, nil
}

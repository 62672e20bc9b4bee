// Package credentials reads secrets and certificates from files, and makes TLS connections with them. A file is read
// once, at the start: who replaces it restarts the instance.
//
// A client always checks the server's certificate and name, and never falls back to a connection without TLS.
package credentials

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"
)

// A File is a file, and the setting that names it.
type File struct{ Setting, Path string }

// A FileError reports a setting whose file cannot be used.
type FileError struct {
	File
	Err error
}

func (e *FileError) Error() string { return e.Setting + ": " + e.Path + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

func (f File) read() ([]byte, error) {
	content, err := os.ReadFile(f.Path)
	if reason, ok := errors.AsType[*fs.PathError](err); ok {
		err = reason.Err // package os repeats the path
	}
	if err != nil {
		return nil, &FileError{f, err}
	}
	return content, nil
}

// Secret returns the content of a file, without its last line break.
func Secret(f File) (string, error) {
	content, err := f.read()
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"), err
}

// Files are the PEM files of a client. Their paths may be empty.
type Files struct {
	CA        File // the certificates that sign those of the server; empty: those of the system
	Cert, Key File // the certificate that the client presents, with its chain, and its key; empty: none
}

// AddTo adds what the files contain to the configuration of a client.
func (f Files) AddTo(c *tls.Config) error {
	if f.CA.Path != "" {
		content, err := f.CA.read()
		if err != nil {
			return err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(content) {
			return &FileError{f.CA, errors.New("has no certificate in PEM")}
		}
	}
	if f.Cert.Path == "" {
		return nil
	}
	cert, err := f.Cert.read()
	if err != nil {
		return err
	}
	key, err := f.Key.read()
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return &FileError{f.Cert, err}
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}

// A Dialer makes connections to one server, or to all nodes of one. It is safe for concurrent use.
type Dialer struct {
	Config  *tls.Config   // without a ServerName: a certificate has the host of the address
	Timeout time.Duration // of a connection with its handshake; 0: 5 s
}

// DialContext opens a connection and completes its handshake.
func (d Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, 5*time.Second))
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	config := d.Config.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		config.ServerName = cmp.Or(config.ServerName, host)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if errors.Is(err, context.DeadlineExceeded) { // Redis without TLS waits for the end of the line
			return nil, fmt.Errorf("TLS handshake with %s: no reply (does it speak TLS on this port?): %w", addr, err)
		}
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return secure, nil
}

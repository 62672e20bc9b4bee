package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"
)

// readServerTLS returns the configuration of connections to servers over TLS. An instance reads the files once, so a
// replaced file takes effect after a restart. A client always checks the certificate and the host of the address, and
// never falls back to a connection without TLS.
func (a *App) readServerTLS() (*tls.Config, error) {
	files := a.cfg.ServerTLS
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		content, err := os.ReadFile(files.CA)
		if err != nil {
			return nil, fmt.Errorf("server_tls.ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("server_tls.ca: %s has no certificate in PEM", files.CA)
		}
	}
	if files.Cert != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("server_tls.cert: %s with %s: %w", files.Cert, files.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
		a.metrics.Certificate("server_tls.cert", firstEnd(pair))
	}
	return config, nil
}

// firstEnd returns the earliest end in the chain of a certificate.
func firstEnd(c tls.Certificate) (first time.Time) {
	for _, der := range c.Certificate {
		x, err := x509.ParseCertificate(der)
		if err == nil && (first.IsZero() || x.NotAfter.Before(first)) {
			first = x.NotAfter
		}
	}
	return first
}

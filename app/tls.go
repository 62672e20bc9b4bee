package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"time"

	"example.com/stock/app/credentials"
)

// A TLSConfig says how a server is reached over TLS.
type TLSConfig struct {
	Enabled                   bool
	CA, Cert, Key, ServerName string
}

// settings returns the keys of the configuration, which begin with prefix.
func (c *TLSConfig) settings(prefix string) []setting {
	return []setting{
		{&c.Enabled, prefix + "enabled", false, false},
		{&c.CA, prefix + "ca", "", false},
		{&c.Cert, prefix + "cert", "", false},
		{&c.Key, prefix + "key", "", false},
		{&c.ServerName, prefix + "server_name", "", false},
	}
}

// check returns an error if TLS is off although something is set for it, because the connections would not be secret.
func (c *TLSConfig) check(prefix string) (bad []error) {
	if !c.Enabled && *c != (TLSConfig{}) {
		bad = append(bad, wrong(prefix+"enabled", "tls-off"))
	}
	if c.Cert == "" && c.Key != "" {
		bad = append(bad, wrong(prefix+"cert", "pair"))
	}
	if c.Cert != "" && c.Key == "" {
		bad = append(bad, wrong(prefix+"key", "pair"))
	}
	return bad
}

// Values of the setting tls_min_version.
const (
	tls12 = "1.2"
	tls13 = "1.3"
)

func (c *Config) minTLS() uint16 {
	if c.TLSMinVersion == tls13 {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// client returns the configuration of connections to a server, or nil if they need no TLS.
func (a *App) client(prefix string, c TLSConfig) (*tls.Config, error) {
	if !c.Enabled {
		return nil, nil
	}
	config := &tls.Config{MinVersion: a.cfg.minTLS(), ServerName: c.ServerName}
	file := func(name, path string) credentials.File { return credentials.File{Setting: prefix + name, Path: path} }
	err := credentials.Files{
		CA: file("ca", c.CA), Cert: file("cert", c.Cert), Key: file("key", c.Key),
	}.AddTo(config)
	for _, certificate := range config.Certificates {
		a.metrics.Certificate(prefix+"cert", firstEnd(certificate))
	}
	return config, unusable(err)
}

// firstEnd returns the earliest end in the chain of a certificate.
func firstEnd(c tls.Certificate) (first time.Time) {
	for _, der := range c.Certificate {
		if x, err := x509.ParseCertificate(der); err == nil && (first.IsZero() || x.NotAfter.Before(first)) {
			first = x.NotAfter
		}
	}
	return first
}

// unusable returns the error of package credentials as a text of the catalogue.
func unusable(err error) error {
	file, ok := errors.AsType[*credentials.FileError](err)
	if !ok {
		return err
	}
	return wrong(file.Setting, "file", "path", file.Path, "why", file.Err)
}

// textKey returns the key of the text that says what a setting means. The settings of TLS share theirs, and so do the
// files of secrets.
func (s setting) textKey() string {
	if strings.HasSuffix(s.key, fileSuffix) {
		return "secret_file"
	}
	if _, field, ok := strings.Cut(s.key, ".tls."); ok {
		return "server_tls." + field
	}
	return s.key
}

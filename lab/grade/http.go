package grade

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A remote is a lock behind two HTTP calls. All contenders share it, so no contender can be frozen or killed.
type remote struct {
	base   string
	client *http.Client
}

func newRemote(base string) *remote {
	return &remote{strings.TrimRight(base, "/"), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}}
}

// reach connects once: without it every scenario would report the same wrong address.
func (l *remote) reach(ctx context.Context) error {
	address, err := url.Parse(l.base)
	if err != nil {
		return err
	}
	port := address.Port()
	if port == "" {
		port = address.Scheme // net knows the ports of http and https
	}
	dialer := net.Dialer{Timeout: defaultGrace}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.Hostname(), port))
	if err != nil {
		return phrases.Error("fault.unreachable", "url", l.base, "why", err)
	}
	return connection.Close()
}

func (l *remote) said(r request) string { return "POST " + r.path() }

// ask sends a request and returns the first line of the reply's body. The status is not read.
func (l *remote) ask(ctx context.Context, r request, within time.Duration) (string, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, within, errSilent)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, http.MethodPost, l.base+r.path(), nil)
	if err != nil {
		return "", err
	}
	res, err := l.client.Do(req)
	if err != nil {
		return "", cause(bounded, err)
	}
	defer res.Body.Close()
	body := bufio.NewReader(io.LimitReader(res.Body, maxLine+2))
	line, err := body.ReadString('\n')
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return "", cause(bounded, err)
	case len(line) > maxLine+1:
		return "", &protocolError{l.said(r), line, r.expected(), say("protocol.too-long", "most", maxLine)}
	}
	return strings.TrimSuffix(line, "\n"), nil
}

func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (l *remote) close() error {
	l.client.CloseIdleConnections()
	return nil
}

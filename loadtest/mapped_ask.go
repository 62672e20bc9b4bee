package loadtest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// told is the reply to a call.
type told struct {
	what string // was asked
	answer
	doc any
}

// ask makes a call that must work, within askLimit.
func (m *Mapped) ask(ctx context.Context, c *question, v values) (told, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.wire.limit, fmt.Errorf("no reply within %v", m.wire.limit))
	defer cancel()
	req, err := m.request(ctx, c, v)
	if err != nil {
		return told{}, err
	}
	what := c.method + " " + req.URL.RequestURI()
	ans, err := m.wire.exchange(req)
	switch {
	case err != nil && ctx.Err() != nil:
		return told{}, m.wire.fail("did not answer %s in time: %w", what, context.Cause(ctx))
	case err != nil && ans.status != 0:
		return told{}, m.wire.fail("broke off its reply to %s after %d bytes: %w", what, len(ans.body), err)
	case err != nil:
		return told{}, m.wire.fail("cannot be reached: %s: %w", what, err)
	case !within(c.status, ans.status):
		return told{}, m.wire.fail("answers %s with status %d, not %v as the mapping says: %s", what, ans.status, c.status, ans.beginning())
	}
	return told{what, ans, document(ans.body)}, nil
}

func (m *Mapped) strange(got told, err error) error {
	return m.wire.fail("answers in another form than the mapping says: the reply to %s %w: %s", got.what, err, got.beginning())
}

func (m *Mapped) request(ctx context.Context, c *question, v values) (*http.Request, error) {
	kind := contentType(c.headers)
	req, err := http.NewRequestWithContext(ctx, c.method, m.wire.base+c.path.path(v), strings.NewReader(c.body.content(kind, v)))
	if err != nil {
		return nil, m.wire.fail("cannot be asked: %s %s: %w", c.method, c.path, err)
	}
	if len(c.body) > 0 {
		req.Header.Set("Content-Type", kind)
	}
	for _, h := range c.headers {
		if h.name != "Content-Type" {
			req.Header.Set(h.name, h.value.fill(v))
		}
	}
	return req, nil
}

// beginning is what a reply says, as far as an error message can hold it.
func (a answer) beginning() string {
	const most = 120
	text := strings.Join(strings.Fields(string(a.body)), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strconv.Quote(text)
}

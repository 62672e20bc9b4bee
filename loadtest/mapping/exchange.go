package mapping

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// An answer is the reply to a request that does not sell.
type answer struct {
	what string // the request
	loadtest.Answer
	source
}

// busyLimit limits how long a request that does not sell is repeated while the API is busy.
const busyLimit = 30 * time.Second

// ask sends a request that must succeed.
func (t *Target) ask(ctx context.Context, c *question, v values) (answer, error) {
	got, err := t.answered(ctx, c, v)
	if err == nil {
		err = t.refused(c, &got)
	}
	return got, err
}

// askUntil is ask for a step, which may have to be repeated.
func (t *Target) askUntil(ctx context.Context, s *step, v values) (answer, error) {
	for began := time.Now(); ; {
		got, err := t.answered(ctx, &s.question, v)
		switch {
		case err != nil:
			return got, err
		case !t.goesOn(s.repeat, got.Status, got.source):
			return got, t.refused(&s.question, &got)
		case time.Since(began)+s.repeat.every > s.repeat.limit:
			return got, t.errorf("was asked %s for %v, and %s did not end: %s", got.what, s.repeat.limit,
				s.field+".repeat", t.veil.beginning(&got.Answer))
		}
		if err := loadtest.Sleep(ctx, s.repeat.every); err != nil {
			return got, t.errorf("was asked %s: %w", got.what, err)
		}
	}
}

// answered sends a request. While the API is busy, it sends the request again.
func (t *Target) answered(ctx context.Context, c *question, v values) (answer, error) {
	for began := time.Now(); ; {
		got, err := t.askOnce(ctx, c, v)
		pause, _, busy := c.busy.pause(got.Status, got.source)
		switch {
		case err != nil || !busy:
			return got, err
		case time.Since(began)+pause > busyLimit:
			return got, t.errorf("is too busy for %s, and says so for %v", got.what,
				time.Since(began).Round(time.Second))
		}
		if err := loadtest.Sleep(ctx, pause); err != nil {
			return got, t.errorf("is busy for %s: %w", got.what, err)
		}
	}
}

func (t *Target) askOnce(ctx context.Context, c *question, v values) (got answer, err error) {
	req, err := t.request(ctx, c, v)
	if err != nil {
		return got, err
	}
	got.what = c.method + " " + req.URL.RequestURI()
	if got.Answer, err = t.client.Ask(req, words.Text{}); err != nil {
		return got, t.veil.overError(err)
	}
	got.source = source{document(got.Body), got.Answer.Header, v, t.veil}
	return got, nil
}

// refused returns an error if a request did not succeed.
func (t *Target) refused(c *question, got *answer) error {
	if t.matches(c.accepted, got.Status, got.source) {
		return nil
	}
	if to := t.veil.redirect(&got.Answer); to != "" {
		return t.errorf("redirects %s to %s, which is not followed: give that address instead", got.what, to)
	}
	return t.errorf("answers %s with status %d, not %v as the mapping says: %s",
		got.what, got.Status, c.accepted, t.veil.beginning(&got.Answer))
}

func (t *Target) strange(got answer, err error) error {
	return t.errorf("answers in another form than the mapping says: the reply to %s %w: %s", got.what, err,
		t.veil.beginning(&got.Answer))
}

// matches reports whether a reply, or an entry of a list, matches any of the rules.
func (t *Target) matches(r rules, status int, s source) bool {
	is := r.matches(status, s)
	if is && t.trial != nil {
		t.trial.matched[&r[0]] = true
	}
	return is
}

// goesOn reports whether a request is to be sent again after a reply.
func (t *Target) goesOn(r *repetition, status int, s source) bool {
	return r != nil && t.matches(r.while, status, s) != r.until
}

// save keeps what a reply to s tells for later requests.
func (s *step) save(from source, to ...values) error {
	for _, saved := range s.saves {
		value, ok := saved.at.scalar(from)
		if !ok || value == "" {
			return fmt.Errorf("has nothing at %s (%s)", saved.at.text, saved.field)
		}
		for _, v := range to {
			v[saved.name] = value
		}
	}
	return nil
}

func (t *Target) request(ctx context.Context, c *question, v values) (*http.Request, error) {
	for _, part := range []template{c.path, c.body} {
		if err := part.check(v); err != nil {
			return nil, t.errorf("cannot be asked: %s %s: %w", c.method, c.path, err)
		}
	}
	kind := c.kind()
	req, err := http.NewRequestWithContext(ctx, c.method, t.client.URL()+c.path.path(v),
		strings.NewReader(c.body.content(kind, v)))
	if err != nil {
		return nil, t.errorf("cannot be asked: %s %s: %w", c.method, c.path, err)
	}
	if c.link != nil {
		req.URL = c.link
	}
	if len(c.body) > 0 {
		req.Header.Set("Content-Type", kind)
	}
	for _, h := range c.headers {
		value := h.sent(v)
		if strings.ContainsFunc(value, noHeaderValue) { // of a value that an earlier reply told
			return nil, t.errorf("cannot be asked: %s %s: a value for the header %s has a control character", c.method,
				c.path, h.name)
		}
		if h.name != "Content-Type" {
			req.Header.Set(h.name, value)
		}
	}
	return req, nil
}

// quoted quotes the beginning of a text, for an error message.
func quoted(text string) string {
	const most = 120
	long := len(text) > 2*most // of which blanks are left out
	if long {
		text = text[:2*most]
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text, long = text[:most], true
	}
	if long {
		text = strings.ToValidUTF8(text, "") + "..."
	}
	return strconv.Quote(text)
}

package mapping

import (
	"context"
	"errors"
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

// Why a request is not sent again.
var (
	errTooBusy = errors.New("the API is busy")
	errTooLong = errors.New("the API has not decided")
)

// A pause comes before a request is sent again.
type pause struct {
	length time.Duration
	busy   bool // because the API is busy; otherwise the mapping says so
}

// repeated calls once until it wants no other try. The pauses in which the API is busy are added to busy, which has its
// own limit; the rest may take as long as r says.
func repeated(ctx context.Context, r *repetition, busy *time.Duration, once func() (next pause, again bool)) error {
	began, before := time.Now(), *busy
	for {
		next, again := once()
		switch {
		case !again:
			return nil
		case next.busy && *busy+next.length > busyLimit:
			return errTooBusy
		case !next.busy && time.Since(began)-(*busy-before)+next.length > r.limit:
			return errTooLong
		}
		from := time.Now()
		err := loadtest.Sleep(ctx, next.length)
		if next.busy {
			*busy += time.Since(from)
		}
		if err != nil {
			return err
		}
	}
}

// ask sends a request that must succeed.
func (t *Target) ask(ctx context.Context, c *question, v values) (answer, error) {
	return t.askUntil(ctx, &step{question: *c}, v)
}

// askUntil is ask for a step, which may have to be repeated.
func (t *Target) askUntil(ctx context.Context, s *step, v values) (got answer, err error) {
	var busy time.Duration
	ended := repeated(ctx, s.repeat, &busy, func() (pause, bool) {
		if got, err = t.askOnce(ctx, &s.question, v); err != nil {
			return pause{}, false
		}
		if length, _, is := s.busy.pause(got.Status, got.source); is {
			return pause{length, true}, true
		}
		return t.goesOn(s.repeat, got.Status, got.source)
	})
	switch {
	case err != nil:
		return got, err
	case errors.Is(ended, errTooBusy):
		return got, t.errorf("is too busy for %s, and says so for %v", got.what, busy.Round(time.Second))
	case errors.Is(ended, errTooLong):
		return got, t.errorf("was asked %s for %v, and %s did not end: %s", got.what, s.repeat.limit,
			s.field+".repeat", t.veil.beginning(&got.Answer))
	case ended != nil:
		return got, t.errorf("was asked %s: %w", got.what, ended)
	}
	return got, t.refused(&s.question, &got)
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

// goesOn reports whether the mapping says that a request is to be sent again after a reply, and after which pause.
func (t *Target) goesOn(r *repetition, status int, s source) (next pause, again bool) {
	if r == nil || t.matches(r.while, status, s) == r.until {
		return next, false
	}
	return pause{length: r.every}, true
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

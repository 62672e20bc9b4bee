package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// Paused waits until the call stands at point. It stops the scenario if the call is answered first, or never gets there.
func (c *Call) Paused(point string) *Call {
	if !c.PausedOrAnswered(point) {
		c.b.Fatalf("%s was answered before it came to %s: %s", c.Who, point, Told(c.record.Reply))
	}
	return c
}

// PausedOrAnswered waits for either: whether the call stands at point. That is how one finds out, without a clock, whether a lock lets a
// request in that does not wait.
func (c *Call) PausedOrAnswered(point string) bool {
	for began := time.Now(); ; {
		answered := c.Answered()
		if !answered {
			where, since, err := c.App.whereabouts(c.b.Ctx, c.ID)
			if err == nil && where == point {
				c.at, c.since = point, since
				if c.inner.IsZero() && point != BeforeLock && point != AfterUnlock {
					c.inner = since
				}
				return true
			}
			answered = c.Answered()
		}
		if answered {
			c.note()
			return false
		}
		if time.Since(began) > patience {
			c.b.Fatalf("%s did not come to %s within %v", c.Who, point, patience)
		}
		c.b.pause(c.Who + " stands at " + point)
	}
}

// Answered reports whether the reply is there.
func (c *Call) Answered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Go lets a call that stands at a point go on.
func (c *Call) Go() *Call {
	if c.at == "" {
		c.b.Fatalf("%s is to go on, but stands nowhere", c.Who)
	}
	c.b.Interval(c.App.Name, Paused, c.Who, c.since, "%s stood at %s", c.Who, c.at)
	c.at = ""
	c.b.Must("let "+c.Who+" go on", c.App.release(c.b.Ctx, c.ID))
	return c
}

// Reply waits for the reply. No reply is one with the outcome unknown.
func (c *Call) Reply() loadtest.Reply {
	select {
	case <-c.done:
	case <-time.After(patience + 30*time.Second):
		c.b.Fatalf("%s had no reply within %v", c.Who, patience+30*time.Second)
	case <-c.b.Ctx.Done():
		c.b.Fatalf("wait for the reply to %s: %w", c.Who, context.Cause(c.b.Ctx))
	}
	c.note()
	return c.record.Reply
}

// Took is how long the reply took.
func (c *Call) Took() time.Duration { return c.record.DoneAt.Sub(c.record.SentAt) }

// Leave makes the customer go away without the reply, as one whose connection breaks.
func (c *Call) Leave() {
	c.b.Note(c.App.Name, "%s goes away without the reply", c.Who)
	c.cancel()
	<-c.done
	c.note()
}

// note writes down the reply, once, and what the instance believed.
func (c *Call) note() {
	if c.noted {
		return
	}
	c.noted = true
	b, r := c.b, &c.record
	if c.at != "" {
		b.event(Event{At: c.since, Until: r.DoneAt, Lane: c.App.Name, Kind: Paused, Who: c.Who}, "%s stood at %s", c.Who, c.at)
		c.at = ""
	}
	b.event(Event{At: r.DoneAt, Lane: c.App.Name, Kind: Answered, Who: c.Who}, "%s: %s", c.Who, Told(r.Reply))
	from, until := c.inner, r.DoneAt
	if r.Receipt != nil {
		from, until = r.AcquiredAt, r.ReleasedAt
		b.event(Event{At: until, Lane: c.App.Name, Kind: Write, Who: c.Who}, "%s read %d and wrote %d", c.Who, r.Read, r.Remaining)
	}
	if r.Problem == "stale_fence" || r.Problem == "lock_lost" {
		b.event(Event{At: until, Lane: c.App.Name, Kind: Refused, Who: c.Who}, "%s was refused: %s", c.Who, r.Problem)
	}
	if b.Promise.Exclusive && !from.IsZero() {
		b.event(Event{At: from, Until: until, Lane: c.App.Name, Kind: Lease, Who: c.Who}, "%s held the lock, as it believed", c.Who)
	}
}

// abandon ends a call that the scenario has left open.
func (c *Call) abandon(ctx context.Context) {
	c.cancel()
	<-c.done
	for c.App.Pid() != 0 { // it may stand at one point after another, and would hold its lock for minutes
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := c.App.release(ctx, c.ID)
		cancel()
		if err != nil {
			return
		}
	}
}

// Told says what a reply amounts to.
func Told(r loadtest.Reply) Text {
	if r.Receipt != nil {
		fence := ""
		if r.Fence > 0 {
			fence = fmt.Sprintf(", fence %d", r.Fence)
		}
		return Text{
			fmt.Sprintf("sold, read %d, left %d%s", r.Read, r.Remaining, fence),
			fmt.Sprintf("成交，读到 %d，剩 %d%s", r.Read, r.Remaining, strings.Replace(fence, ", ", "，", 1)),
		}
	}
	told := r.Error
	if r.Problem != "" {
		told = fmt.Sprintf("%d %s", r.Status, r.Problem)
	}
	return Text{told, told}
}

// whereabouts is the point where a request stands, or "".
func (a *App) whereabouts(ctx context.Context, id string) (point string, since time.Time, err error) {
	var list struct {
		Pauses []struct {
			RequestID string `json:"request_id"`
			Point     string
			Since     time.Time
		}
	}
	if err := a.call(ctx, http.MethodGet, "/v1/lab/pauses", &list); err != nil {
		return "", time.Time{}, err
	}
	for _, p := range list.Pauses {
		if p.RequestID == id {
			return p.Point, p.Since, nil
		}
	}
	return "", time.Time{}, nil
}

func (a *App) release(ctx context.Context, id string) error {
	return a.call(ctx, http.MethodDelete, "/v1/lab/pauses/"+url.PathEscape(id), nil)
}

// call asks the listener for operators of an instance and decodes its reply into out, if not nil. The error of a
// refusal has its status.
func (a *App) call(ctx context.Context, method, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.Admin+path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return &statusError{method + " " + path, res.StatusCode}
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// A statusError is an answer that is not 200.
type statusError struct {
	asked  string
	status int
}

func (e *statusError) Error() string { return fmt.Sprintf("%s answered %d", e.asked, e.status) }

package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
)

// maxBody is the longest reply that is read: a page of orders has a few hundred kilobytes.
const maxBody = 4 << 20

// An answer is a reply that was read to its end, or as far as it came.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// exchange sends req and reads the reply to its end, so that the connection can be used again. With an error, the answer holds what came before it.
func (c *Client) exchange(req *http.Request) (answer, error) {
	res, err := c.http.Do(req)
	if err != nil {
		var outer *url.Error // repeats method and URL
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return answer{}, portless(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("it is longer than %d bytes", maxBody)
	}
	return answer{res.StatusCode, res.Header, body}, portless(err)
}

// portless leaves out our port, without which the same error of many connections is the same text.
func portless(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Source != nil {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

func (a answer) kind() string {
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil || kind == "" {
		return "a reply without a content type"
	}
	return kind
}

func (a answer) json() bool { return a.kind() == "application/json" }

// problem is the refusal that a is, or nil.
func (a answer) problem() *Problem {
	if a.kind() != "application/problem+json" {
		return nil
	}
	p := new(Problem)
	if json.Unmarshal(a.body, p) != nil || p.Type == "" {
		return nil
	}
	if p.Status == 0 {
		p.Status = a.status
	}
	return p
}

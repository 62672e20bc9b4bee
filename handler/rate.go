package handler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
	"example.com/stock/service/ratelimit"
)

// A Rate limits how often a customer may ask. It counts the requests of proven customers: anybody can make up another
// name, and operators are not limited. A gateway limits the requests of one address.
type Rate struct {
	Limiter ratelimit.Limiter
	All     []ratelimit.Policy // for all requests
	Keyed   []ratelimit.Policy // for those with an idempotency key, too, because a store keeps it for long
}

// errRate comes as a rateError.
var errRate = errors.New("the customer asks too often")

type rateError struct{ retry time.Duration }

func (e *rateError) Error() string {
	return fmt.Sprintf("%v: the next request is admitted in %v", errRate, e.retry)
}
func (e *rateError) Is(target error) bool { return target == errRate }

// take returns a rateError if the customer asks too often. It sets the headers of
// draft-ietf-httpapi-ratelimit-headers-10, so that a client can slow down before it is refused.
func (r Rate) take(c *gin.Context, customer string) error {
	policies := r.All
	if c.GetHeader(service.KeyHeader) != "" {
		policies = slices.Concat(r.All, r.Keyed)
	}
	if customer == "" || len(policies) == 0 {
		return nil
	}
	reply, retry := c.Writer.Header(), time.Duration(0)
	for i, d := range r.Limiter.Take(c.Request.Context(), customer, policies...) {
		p := policies[i]
		reply.Add("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", p.Name, p.Burst, wholeSeconds(p.Whole())))
		reply.Add("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", p.Name, d.Left, wholeSeconds(d.Full)))
		if !d.OK {
			retry = max(retry, d.Retry)
		}
	}
	if retry > 0 {
		return &rateError{retry}
	}
	return nil
}

func explainRate(err error) (p problem) {
	if often, ok := errors.AsType[*rateError](err); ok {
		after := max(1, wholeSeconds(often.retry))
		p.detail = phrases.Say("rate_limited.detail", "seconds", after)
		p.header = map[string]string{"Retry-After": strconv.Itoa(after)}
	}
	return p
}

// wholeSeconds rounds up, as a client must not come too early.
func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

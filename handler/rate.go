package handler

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
	"example.com/stock/service/ratelimit"
)

// A Rate limits how often a customer may ask. It counts the requests of proven customers: anybody can make up another
// name, and operators are not limited. A gateway limits the requests of one address.
type Rate struct {
	Name    string // in the headers
	Keyed   bool   // it counts only requests with an idempotency key, which a store keeps for long
	Limiter ratelimit.Limiter
	Policy  ratelimit.Policy
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
	if customer == "" || r.Keyed && c.GetHeader(service.KeyHeader) == "" {
		return nil
	}
	d := r.Limiter.Take(c.Request.Context(), r.Name+":"+customer)
	burst := r.Policy.Every * time.Duration(r.Policy.Burst)
	reply := c.Writer.Header()
	reply.Add("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", r.Name, r.Policy.Burst, wholeSeconds(burst)))
	reply.Add("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", r.Name, d.Left, wholeSeconds(d.Full)))
	if !d.OK {
		return &rateError{d.Retry}
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

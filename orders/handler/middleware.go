package handler

import (
	"fmt"
	"regexp"
	"runtime/debug"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
)

const requestID = "X-Request-Id"

var usableID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// identifyRequest gives every reply the id of its request, which is the client's if it can be logged as it is.
func identifyRequest(instance string) gin.HandlerFunc {
	return func(c *gin.Context) {
		id := c.GetHeader(requestID)
		if !usableID.MatchString(id) {
			id = uuid.NewString()
		}
		c.Header(requestID, id)
		c.Header("X-Instance", instance)
	}
}

// recovered answers a panic as an internal error.
func recovered() gin.HandlerFunc {
	return gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, why any) {
		fail(c, fmt.Errorf("%w: %v\n%s", errPanic, why, debug.Stack()))
	})
}

// atMost refuses requests while n are under way, so that those wait in the client, where they can be given up, and not
// here.
func atMost(n int) gin.HandlerFunc {
	slots := make(chan struct{}, n)
	return func(c *gin.Context) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			c.Next()
		default:
			fail(c, errOverloaded)
		}
	}
}

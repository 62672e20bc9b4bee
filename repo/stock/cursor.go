package stock

import (
	"fmt"
	"strconv"
	"strings"

	"example.com/stock/service"
)

// A cursor is a position in the orders of one epoch: an index in Redis, a sequence number in MySQL. Its text is opaque
// to callers.
type cursor struct {
	epoch uint64 // 0: the first page of the current epoch
	after int64
}

func (c cursor) String() string { return fmt.Sprintf("%d.%d", c.epoch, c.after) }

// parseCursor parses a result of String, or "".
func parseCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{}, nil
	}
	epoch, after, _ := strings.Cut(s, ".")
	e, err1 := strconv.ParseUint(epoch, 10, 64)
	a, err2 := strconv.ParseInt(after, 10, 64)
	if err1 != nil || err2 != nil || e == 0 || a < 0 {
		return cursor{}, service.Invalid("cursor", "cursor")
	}
	return cursor{e, a}, nil
}

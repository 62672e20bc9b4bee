package zklock

import (
	"context"
	"time"

	"example.com/stock/lock"
)

// A Contender holds a key or waits for it.
type Contender struct {
	Who   string     // Options.Owner of its Acquire; Curator writes an address
	Node  string     // path of its node; deleting the node removes the contender from the queue
	Since time.Time  // time of its arrival, by the server's clock
	Fence lock.Fence // fence of its hold or future hold; 0 if it has just arrived, or is another program

	czxid int64
}

// contender returns the contender that made a node, without its fence, or the zero value if the node no longer exists.
func (g *generation) contender(ctx context.Context, path string) (Contender, error) {
	data, stat, err := g.get(ctx, path)
	if err != nil {
		return Contender{}, unlessGone(err)
	}
	return Contender{
		Who: string(data), Node: path, Since: time.UnixMilli(stat.Ctime), czxid: stat.Czxid,
	}, nil
}

package zklock

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// frame is a request as it is on the wire.
func frame(operation int32) []byte {
	p := binary.BigEndian.AppendUint32(nil, 8)
	p = binary.BigEndian.AppendUint32(p, 1) // xid
	return binary.BigEndian.AppendUint32(p, uint32(operation))
}

// On a new connection of an old session the watches are renewed before anything is asked, in whatever order the
// library comes to it.
func TestWatchesAreRenewedFirst(t *testing.T) {
	t.Parallel()
	const greeting, create, getData, opSync = 0, 1, 4, 9
	for _, row := range []struct {
		why         string
		due         bool
		sent, comes []int32
	}{
		{"a new session", false, []int32{greeting, getData, create}, []int32{greeting, getData, create}},
		{
			"an old one", true,
			[]int32{greeting, getData, opPing, create, opSetWatches, opSync},
			[]int32{greeting, opPing, opSetWatches, getData, create, opSync},
		},
		{"no watches: after a while", true, []int32{greeting, getData, create}, []int32{greeting, getData, create}},
		{"closed meanwhile", true, []int32{greeting, getData, opClose}, []int32{greeting, getData, opClose}},
	} {
		client, server := net.Pipe()
		l := &link{Conn: client}
		l.renewal.due = row.due
		var sending sync.WaitGroup
		sending.Go(func() {
			for _, operation := range row.sent {
				if n, err := l.Write(frame(operation)); n != len(frame(operation)) || err != nil {
					t.Errorf("%s: wrote %d, %v", row.why, n, err)
				}
			}
		})
		var came []int32
		for range row.comes {
			p := make([]byte, len(frame(0)))
			if _, err := io.ReadFull(server, p); err != nil {
				t.Fatal(err)
			}
			came = append(came, int32(binary.BigEndian.Uint32(p[opAt:])))
		}
		sending.Wait()
		if !slices.Equal(came, row.comes) {
			t.Errorf("%s: came %v, want %v", row.why, came, row.comes)
		}
		client.Close()
		server.Close()
	}
}

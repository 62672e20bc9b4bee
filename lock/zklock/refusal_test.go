package zklock

import (
	"encoding/binary"
)

// Refusal returns a trap's reply to a request: only the header, with an error.
func Refusal(code int32) func([]byte) []byte {
	return func(request []byte) []byte {
		reply := binary.BigEndian.AppendUint32(nil, 4+8+4)
		reply = append(reply, request[4:8]...)          // xid
		reply = binary.BigEndian.AppendUint64(reply, 1) // transaction
		return binary.BigEndian.AppendUint32(reply, uint32(code))
	}
}

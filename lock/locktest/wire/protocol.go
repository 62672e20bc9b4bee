package wire

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// A Protocol tells a Proxy where messages begin and end. For the zero value, every chunk that is read is a message.
type Protocol struct {
	// Split returns the length of the first message in b, or 0 if it is not complete. Nil: all of b.
	Split func(d Direction, b []byte) int
	// Chatter reports whether message is the protocol's own, such as a greeting or a ping. Chatter is not counted, and
	// springs no trap without a Match. first is true for the first message in this direction. Nil: no chatter.
	Chatter func(message []byte, first bool) bool
	// Answers reports whether reply is the reply to request. Nil: the next message is the reply, as on a connection
	// that serves one request after another.
	Answers func(request, reply []byte) bool
	// Pong returns the reply to message if it is a ping, which asks only whether the other end is alive, and nil
	// otherwise. Nil: the protocol has no ping.
	Pong func(message []byte) []byte
	// Push reports whether the server sent message without a request, such as a published message or the event of a
	// watch. Nil: it sends none.
	Push func(message []byte) bool
}

// Redis returns the protocol RESP. Each command of a pipeline is a message. A reply is the bytes of one read.
func Redis() Protocol {
	return Protocol{
		Split: func(d Direction, b []byte) int {
			if d == ToClient || b[0] != '*' {
				return len(b)
			}
			return respCommand(b)
		},
		Chatter: func(message []byte, _ bool) bool {
			fields := bytes.SplitN(message, []byte("\r\n"), 4) // *2, $5, hello, the rest
			return len(fields) == 4 &&
				slices.Contains([]string{"HELLO", "CLIENT", "AUTH", "SELECT"}, strings.ToUpper(string(fields[2])))
		},
		Pong: func(message []byte) []byte {
			if strings.EqualFold(string(message), "*1\r\n$4\r\nping\r\n") {
				return []byte("+PONG\r\n")
			}
			return nil
		},
		Push: func(message []byte) bool { // RESP3 and RESP2
			const published = "3\r\n$7\r\nmessage\r\n"
			return bytes.HasPrefix(message, []byte(">"+published)) || bytes.HasPrefix(message, []byte("*"+published))
		},
	}
}

// respCommand returns the length of an array of bulk strings, or 0 if it is not complete.
func respCommand(b []byte) int {
	fields, at := respNumber(b, 0)
	for range fields {
		if at == 0 || at >= len(b) {
			return 0
		}
		var size int
		if size, at = respNumber(b, at); at == 0 {
			return 0
		}
		at += size + len("\r\n")
	}
	if at > len(b) {
		return 0
	}
	return at
}

// respNumber reads "*12\r\n" or "$12\r\n" at an offset. It returns the number and the offset after it, which is 0 if
// the number is not complete.
func respNumber(b []byte, at int) (n, behind int) {
	line, _, found := bytes.Cut(b[at:], []byte("\r\n"))
	if !found {
		return 0, 0
	}
	n, err := strconv.Atoi(string(line[min(1, len(line)):]))
	const limit = 512 << 20 // that of Redis itself
	if err != nil || n < 0 || n > limit {
		return 0, len(b) // no command: forward it unchanged
	}
	return n, at + len(line) + len("\r\n")
}

// ZooKeeper returns a protocol of frames: four bytes of length and, after the greeting, four bytes of an id that the
// reply repeats. Chatter is the greeting, pings, the sync that zklock sends as its heartbeat, and the close of the
// session.
func ZooKeeper() Protocol {
	const length, event, ping, opSync, opClose = 4, -1, -2, 9, -11
	word := func(b []byte, at int) int32 {
		if len(b) < at+4 {
			return 0
		}
		return int32(binary.BigEndian.Uint32(b[at:]))
	}
	return Protocol{
		Split: func(_ Direction, b []byte) int {
			const limit = 16 << 20 // above the limit it is a four-letter command
			switch n := int(word(b, 0)) + length; {
			case len(b) < length:
				return 0
			case n < length || n > limit:
				return len(b)
			case n > len(b):
				return 0
			default:
				return n
			}
		},
		Chatter: func(m []byte, first bool) bool {
			return first || word(m, 4) == ping || word(m, 8) == opSync || word(m, 8) == opClose
		},
		Answers: func(request, reply []byte) bool { return word(request, 4) == word(reply, 4) },
		Push:    func(m []byte) bool { return word(m, 4) == event },
	}
}

// MySQL returns a protocol of packets: three bytes of length and one of a number, which is 0 in the first packet of
// every command. Chatter is the handshake, whose numbers continue from the server's 0, and the quit command. A reply
// has many packets; a trap for a reply applies to the first, but not to the OK of a statement that others follow in the
// request. A server whose client has gone may not execute these others, such as a COMMIT.
func MySQL() Protocol {
	const header, quit, ping = 4, 1, 14
	return Protocol{
		Split: func(_ Direction, b []byte) int {
			if len(b) < header {
				return 0
			}
			if n := header + int(b[0]) + int(b[1])<<8 + int(b[2])<<16; n <= len(b) {
				return n
			}
			return 0
		},
		Chatter: func(m []byte, _ bool) bool { return m[3] != 0 || len(m) > header && m[header] == quit },
		Answers: func(_, reply []byte) bool { return !moreResults(reply[header:]) },
		Pong: func(m []byte) []byte {
			if len(m) == header+1 && m[3] == 0 && m[header] == ping {
				const autocommit = 2
				return []byte{7, 0, 0, 1, 0, 0, 0, autocommit, 0, 0, 0} // an OK packet
			}
			return nil
		},
	}
}

// moreResults reports whether an OK packet says that the result of another statement follows. See
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html.
func moreResults(payload []byte) bool {
	const ok, flag = 0, 8
	if len(payload) == 0 || payload[0] != ok {
		return false
	}
	at := 1
	for range 2 { // affected rows, and the last id of an insert, in numbers of variable length
		if at >= len(payload) {
			return false
		}
		at += 1 + map[byte]int{0xfc: 2, 0xfd: 3, 0xfe: 8}[payload[at]]
	}
	return at < len(payload) && payload[at]&flag != 0
}

// Contains matches messages that contain text, in upper or lower case.
func Contains(text string) func(message []byte) bool {
	text = strings.ToLower(text)
	return func(message []byte) bool { return bytes.Contains(bytes.ToLower(message), []byte(text)) }
}

package wire

import (
	"encoding/binary"
	"testing"
)

func frame(words ...int32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4*len(words)))
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, uint32(w))
	}
	return b
}

// Where a message ends is known at its last byte and not before, and it ends there whatever follows.
func TestMessagesEndWhereTheyEnd(t *testing.T) {
	for name, row := range map[string]struct {
		protocol Protocol
		message  string
		chatter  bool
	}{
		"redis":           {Redis(), "*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n", false},
		"redis, empty":    {Redis(), "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", false},
		"redis greeting":  {Redis(), "*2\r\n$5\r\nhello\r\n$1\r\n3\r\n", true},
		"redis, no hello": {Redis(), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n", false},
		"zookeeper":       {ZooKeeper(), string(frame(1, 4, 7)), false},
		"zookeeper ping":  {ZooKeeper(), string(frame(-2, 11)), true},
		"zookeeper sync":  {ZooKeeper(), string(frame(7, 9)), true},
		"mysql":           {MySQL(), "\x04\x00\x00\x00\x03abc", false},
		"mysql login":     {MySQL(), "\x04\x00\x00\x01\x03abc", true},
		"mysql good-bye":  {MySQL(), "\x01\x00\x00\x00\x01", true},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n < len(row.message); n++ {
				if got := row.protocol.Split(ToServer, []byte(row.message[:n])); got != 0 {
					t.Errorf("after %d bytes of %d it ends at %d", n, len(row.message), got)
				}
			}
			if got := row.protocol.Split(ToServer, []byte(row.message+row.message)); got != len(row.message) {
				t.Errorf("ends at %d, want %d", got, len(row.message))
			}
			if got := row.protocol.Chatter([]byte(row.message), false); got != row.chatter {
				t.Errorf("chatter: %v, want %v", got, row.chatter)
			}
		})
	}
}

// A trap for the reply of MySQL applies to the last statement of a request, or to the first that returns rows or an
// error.
func TestOnlyTheLastOKAnswers(t *testing.T) {
	for reply, want := range map[string]bool{
		"\x07\x00\x00\x01\x00\x01\x00\x0a\x00\x00\x00":             false, // OK, and another statement follows
		"\x07\x00\x00\x01\x00\x01\x00\x02\x00\x00\x00":             true,
		"\x09\x00\x00\x01\x00\xfc\x08\x01\x00\x0a\x00\x00\x00":     false, // 264 affected rows
		"\x09\x00\x00\x01\x00\x01\xfc\x08\x08\x02\x00\x00\x00":     true,  // the last id has both flags
		"\x0a\x00\x00\x01\x00\x01\xfd\x00\x00\x01\x08\x00\x00\x00": false, // a last id of three bytes
		"\x0f\x00\x00\x01\x00\x01\xfe12345678\x08\x00\x00\x00":     false, // a last id of eight bytes
		"\x01\x00\x00\x01\x08":                                     true,  // eight columns of rows
		"\x04\x00\x00\x01\xff\x08\x08\x08":                         true,  // an error
		"\x00\x00\x00\x01":                                         true,
		"\x01\x00\x00\x01\x00":                                     true,
		"\x02\x00\x00\x01\x00\xfe":                                 true,
	} {
		if got := MySQL().Answers(nil, []byte(reply)); got != want {
			t.Errorf("%q answers: %v, want %v", reply, got, want)
		}
	}
}

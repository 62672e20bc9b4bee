package mysqllock

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lock"
)

// A label is what a statement that waits says of itself, as a comment at its end: the server shows the text of what it is at to everybody who
// may see the connection, and without privileges that is everybody of the same user. It costs no round trip and leaves nothing behind.
type label struct {
	name, who string    // the key as the tables have it, and who asks for it
	since     time.Time // by the clock of whoever waits
}

// labelOf is that of a statement that waits for key with o, from now on.
func labelOf(key string, o lock.Options) string {
	return label{columnName(key), shown(o.Owner), time.Now()}.String()
}

const labelled = "/* waits "

func (l label) String() string {
	return " " + labelled + plainText(l.name) + " " + strconv.FormatInt(l.since.UnixMilli(), 10) + " " + plainText(l.who) + " */"
}

// parseLabel finds the label in the text of a statement.
func parseLabel(statement string) (label, bool) {
	statement, ended := strings.CutSuffix(statement, " */")
	at := strings.LastIndex(statement, labelled)
	if !ended || at < 0 {
		return label{}, false
	}
	part := strings.Split(statement[at+len(labelled):], " ")
	if len(part) != 3 {
		return label{}, false
	}
	name, err1 := url.PathUnescape(part[0])
	since, err2 := strconv.ParseInt(part[1], 10, 64)
	who, err3 := url.PathUnescape(part[2])
	return label{name, who, time.UnixMilli(since)}, err1 == nil && err2 == nil && err3 == nil
}

// plainText is s with everything in percents that could end a comment, or be taken for a parameter, or is not the same in every character set.
func plainText(s string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.:/@#", c) >= 0:
			out.WriteByte(c)
		default:
			out.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		}
	}
	return out.String()
}

package grade

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"example.com/stock/internal/words"
)

// The protocol: one line for each request, one for each reply. docs/lessons/12-grade-your-own-lock.md describes it for
// those who write a lock.
const (
	maxLine  = 1024 // bytes of a reply, without its newline
	maxToken = 256
	maxQuote = 120 // bytes of a reply that a message quotes
)

// A word is the first word of a reply.
type word string

const (
	wordOK    word = "ok"
	wordBusy  word = "busy"
	wordError word = "error"
)

// A reply is the lock's answer to one request.
type reply struct {
	word  word
	token string
	fence uint64 // 0: none
	text  string // of an error
}

func (r reply) ok() bool { return r.word == wordOK }

// String returns the reply as the lock would write it, cut and printable.
func (r reply) String() string {
	switch {
	case r.word == wordError:
		return strings.TrimSpace("error " + printable(r.text))
	case r.token != "":
		return "ok " + printable(r.token)
	}
	return string(r.word)
}

// A protocolError reports a line that is no reply.
type protocolError struct {
	request, line, expected string
	why                     words.Text
}

func (e *protocolError) Error() string { return e.Said().EN }

func (e *protocolError) Said() words.Text {
	return say("protocol.wrong", "request", printable(e.request), "line", quote(e.line), "why", e.why,
		"expected", e.expected)
}

const (
	verbAcquire = "acquire"
	verbRelease = "release"
)

// A request is to acquire or to release a key.
type request struct {
	verb, key string
	name      string // of the argument, in a query
	argument  string // the wait, or the token
}

func acquiring(key string, wait time.Duration) request {
	return request{verbAcquire, key, "wait_ms", strconv.FormatInt(wait.Milliseconds(), 10)}
}

func releasing(key, token string) request { return request{verbRelease, key, "token", token} }

func (r request) line() string { return r.verb + " " + r.key + " " + r.argument }

func (r request) path() string {
	return "/" + r.verb + "?" + url.Values{"key": {r.key}, r.name: {r.argument}}.Encode()
}

// expected describes the reply.
func (r request) expected() string {
	if r.verb == verbAcquire {
		return "ok TOKEN [FENCE] | busy | error TEXT"
	}
	return "ok | error TEXT"
}

// parse reads the reply to the request, which the lock got as sent.
func (r request) parse(sent, line string) (reply, error) {
	wrong := func(why words.Text) (reply, error) {
		return reply{}, &protocolError{sent, line, r.expected(), why}
	}
	first, rest, _ := strings.Cut(trimmed(line), " ")
	acquires := r.verb == verbAcquire
	switch got := word(first); {
	case got == wordError:
		return reply{word: wordError, text: rest}, nil
	case got == wordBusy && acquires:
		return reply{word: wordBusy}, nil
	case got == "":
		return wrong(say("protocol.empty"))
	case got != wordOK:
		return wrong(say("protocol.first-word"))
	case !acquires:
		return reply{word: wordOK}, nil
	}
	fields := strings.Fields(rest)
	switch {
	case len(fields) == 0:
		return wrong(say("protocol.no-token"))
	case len(fields) > 2:
		return wrong(say("protocol.too-many"))
	case len(fields[0]) > maxToken || strings.ContainsFunc(fields[0], unprintable):
		return wrong(say("protocol.token", "most", maxToken))
	}
	granted := reply{word: wordOK, token: fields[0]}
	if len(fields) == 2 {
		fence, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil || fence == 0 {
			return wrong(say("protocol.fence", "fence", quote(fields[1])))
		}
		granted.fence = fence
	}
	return granted, nil
}

func trimmed(line string) string { return strings.TrimRight(line, "\r ") }

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// printable returns a text of the lock for people: short, without control characters.
func printable(text string) string {
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(text[:maxQuote], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unprintable(r) {
			return '·'
		}
		return r
	}, text)
}

// quote quotes a text of the lock, short and printable.
func quote(text string) string {
	more := ""
	if len(text) > maxQuote {
		text, more = text[:maxQuote], "…"
	}
	return strconv.Quote(text) + more
}

// Package mapping describes a foreign inventory API in a file, and makes it a target of the load test.
package mapping

import (
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

// A File says how to use an inventory API: how to set stock, read it, deduct from it and list its orders, and what the
// replies mean. Parse makes a File; loadtest/README.md documents the format. A File is read-only, and safe for
// concurrent use.
type File struct {
	name   string // of the strategy in reports
	set    []step // empty: the stock is set by other means
	read   reading
	deduct []step
	sells  int      // index in deduct of the step from which on units may be gone
	orders *listing // nil: the API lists none

	ids        map[string]values // by SKU: its other names
	skus       []string          // of ids, in the order of the file
	late       time.Duration     // until orders and stock must show a sale; 0: loadtest.LateLimit
	secrets    map[string]string // from the environment: what is shown in place of each
	conditions []condition       // all rules but those for busy replies
	unused     []entry           // saved values that nothing uses
	needs      []string          // variables that set saves, and other requests use
}

//go:embed shops/*.yaml
var shops embed.FS

// Shipped returns the text of the mapping file of a well-known shop. The error has the names near it.
func Shipped(name string) ([]byte, error) {
	text, err := shops.ReadFile("shops/" + name + ".yaml")
	if err == nil {
		return text, nil
	}
	files, err := fs.Glob(shops, "shops/*.yaml")
	if err != nil {
		return nil, err
	}
	var known []string
	for _, file := range files {
		known = append(known, strings.TrimSuffix(path.Base(file), ".yaml"))
	}
	return nil, words.Unknown(phrases.Say("mapping"), name, known)
}

// An entry is a key of the file, as mistakes in it are told.
type entry struct {
	line  int
	field string // such as deduct.path
}

// A condition is the rules under one key.
type condition struct {
	entry
	rules
}

// Name returns the name of the strategy in reports.
func (f *File) Name() string { return f.name }

// SKUs returns the SKUs of which the file tells other names, in its order. Without any, every SKU can be sold.
func (f *File) SKUs() []string { return f.skus }

// Late returns how late the API may show a sale in its orders and stock. 0 means loadtest.LateLimit.
func (f *File) Late() time.Duration { return f.late }

// Accepts reports whether a reply with that status is always accepted, or only sometimes, depending on its body, or on
// the step that it replies to.
func (f *File) Accepts(status int) (always, sometimes bool) {
	s := &f.deduct[f.sells]
	if len(f.deduct) > 1 {
		return false, s.accepted.covers(status) || s.pending.covers(status)
	}
	if !s.accepted.covers(status) {
		return false, false
	}
	alone := s.accepted.always(status) && !s.soldOut.covers(status) && !s.busy.covers(status)
	return alone, !alone
}

// A question is the form of one request.
type question struct {
	entry
	method    string
	path      template
	body      template // empty: none
	isJSON    bool     // whether the body is a table, in which the values are escaped for JSON
	headers   []header
	accepted  rules    // replies of success
	byDefault bool     // accepted is for what no other rule takes
	busy      rules    // replies after which it is sent again, unless it sells
	link      *url.URL // in place of path, if an earlier reply has led to it; nil: it has not
}

// by returns q with another method.
func (q question) by(method string) question {
	q.method = method
	return q
}

// kind returns the media type of the body.
func (q *question) kind() string { return contentType(q.headers) }

type header struct {
	name  string
	value template
	basic bool // the value is user:password of HTTP's basic scheme
}

// sent returns the value as it is sent.
func (h *header) sent(v values) string {
	if h.basic {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(h.value.fill(v)))
	}
	return h.value.fill(v)
}

// A reading says how to read the units left.
type reading struct {
	question
	quantity, less place // less may be empty
}

// A step is one of the requests that set the stock or make a purchase, in order. A mapping without steps has one.
type step struct {
	question
	name              string // its number if it has no other
	sells             bool
	soldOut, pending  rules // may be empty: the API has no such reply
	repeat            *repetition
	saves             []saving
	orderID, instance place // may be empty
	effect
}

// A repetition sends a request again while a reply matches, or until one does.
type repetition struct {
	while        rules
	until        bool // until a reply matches, not while
	every, limit time.Duration
}

// A saving keeps a value of a reply for later requests.
type saving struct {
	entry
	name string
	at   place
}

// An effect is where a reply or an order reports what the sale read and wrote. Both places may be empty.
type effect struct{ read, remaining place }

// A listing says how to list the orders.
type listing struct {
	question
	list                         place
	next                         paging
	where                        rules // which entries count; empty: all
	orderID, quantity, requestID place // requestID may be empty
	effect
}

// statuses is a range of HTTP statuses: 409 to 409, or 200 to 299 for 2xx.
type statuses struct{ from, to int }

func (s statuses) String() string {
	if s.from == s.to {
		return strconv.Itoa(s.from)
	}
	return fmt.Sprintf("%dxx", s.from/100)
}

func within(list []statuses, status int) bool {
	return slices.ContainsFunc(list, func(s statuses) bool { return s.from <= status && status <= s.to })
}

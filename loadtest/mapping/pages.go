package mapping

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"example.com/stock/loadtest"
)

// A paging says how a list goes on after a page. The zero value has one page.
type paging struct {
	form pagingForm
	at   place // of the cursor, or of the number of pages or entries
	more place // of a truth value: whether the cursor leads on; empty: it does unless it is empty
}

type pagingForm string

// The forms.
const (
	byCursor pagingForm = "cursor" // a reply tells the cursor of the next page
	byLink   pagingForm = "link"   // a reply has a Link header with rel="next"
	byPages  pagingForm = "pages"  // a reply tells how many pages there are
	byTotal  pagingForm = "total"  // a reply tells how many entries there are
)

// A walk is the state of reading a list page by page.
type walk struct {
	question
	values
	pages, entries int
	ids            map[string]bool
	seen           map[string]bool // cursors and links
	hint           string          // why the list is only a part; empty: it is whole, as far as is known
}

// list reads page after page. If the list is only a part of all orders, hint is what says so.
func (t *Target) list(ctx context.Context, sku string) (orders []loadtest.Order, hint string, err error) {
	if t.orders == nil {
		return nil, "", nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listLimit,
		fmt.Errorf("the list of orders had no end within %v", listLimit))
	defer cancel()
	orders = []loadtest.Order{}
	w := &walk{
		question: t.orders.question, values: t.values(sku), ids: make(map[string]bool),
		seen: map[string]bool{"": true},
	}
	if err := t.ready(w.values); err != nil {
		return nil, "", err
	}
	w.values[varCursor] = ""
	for more := true; more; {
		w.values[varPage], w.values[varOffset] = strconv.Itoa(w.pages+1), strconv.Itoa(w.entries)
		got, err := t.ask(ctx, &w.question, w.values)
		if err != nil {
			return nil, "", err
		}
		page, err := t.orders.entries(got.source)
		if err != nil {
			return nil, "", t.strange(got, err)
		}
		for _, entry := range page {
			o, ours, err := t.order(sku, source{doc: entry, values: w.values, veil: t.veil})
			if err != nil {
				return nil, "", t.strange(got, fmt.Errorf("has an order that %w", err))
			}
			if ours {
				orders = append(orders, o)
			}
			w.ids[o.OrderID] = true
		}
		w.pages, w.entries = w.pages+1, w.entries+len(page)
		if w.entries > t.most {
			return nil, "", t.errorf("answers %s %s with more than %d orders, which are not read",
				t.orders.method, t.orders.path, t.most)
		}
		if more, err = t.further(&got, w, len(page)); err != nil {
			return nil, "", t.strange(got, fmt.Errorf("%w (orders.next)", err))
		}
	}
	return orders, w.hint, nil
}

// further makes w go on after a page with that many entries. It returns false after the last one.
func (t *Target) further(got *answer, w *walk, entries int) (more bool, err error) {
	next := &t.orders.next
	switch next.form {
	case byCursor:
		more, err = w.byCursor(next, got.source)
	case byLink:
		more, err = t.byLink(got, w)
	case byPages, byTotal:
		more, err = w.byCount(next, got.source, entries)
	}
	if err != nil || more {
		return more, err
	}
	if w.hint == "" {
		w.hint = furtherPages(got.Answer.Header, w.pages, len(w.ids))
	}
	if again := w.entries - len(w.ids); w.hint == "" && again > 0 && next.form != "" && next.form != byCursor {
		w.hint = fmt.Sprintf("%d entries came twice: the pages shifted while they were read", again)
	}
	return false, nil
}

func (w *walk) byCursor(next *paging, s source) (more bool, err error) {
	cursor, _ := next.at.scalar(s)
	leadsOn := ""
	if !next.more.empty() {
		leadsOn, _ = next.more.scalar(s)
	}
	switch {
	case leadsOn == "false":
		return false, nil
	case cursor == "", cursor == "false", cursor == "0": // or absent, or null: the last page
		if leadsOn == "true" {
			w.hint = fmt.Sprintf("true at %s, and no cursor at %s", next.more.text, next.at.text)
		}
		return false, nil
	case cursor == "true":
		return false, fmt.Errorf("has true at %s, which is no cursor", next.at.text)
	case len(cursor) > loadtest.MaxCursor:
		return false, fmt.Errorf("has a cursor of %d bytes at %s", len(cursor), next.at.text)
	case w.seen[cursor]:
		return false, fmt.Errorf("has a cursor that it gave before: after %d pages the list goes round in a circle",
			w.pages)
	}
	w.seen[cursor] = true
	w.values[varCursor] = cursor
	return true, nil
}

// byLink takes the address of the next page. It must be at the same host: what the requests hold is for that alone.
func (t *Target) byLink(got *answer, w *walk) (more bool, err error) {
	text := nextLink(got.Answer.Header)
	if text == "" {
		return false, nil
	}
	at, err := url.Parse(t.client.URL() + t.orders.path.path(got.values))
	if err != nil {
		return false, errors.New("is to an address that is no URL")
	}
	to, err := at.Parse(text)
	switch {
	case len(text) > loadtest.MaxCursor:
		return false, fmt.Errorf("has a link of %d bytes", len(text))
	case err != nil:
		return false, errors.New("has a link that is no URL")
	case to.Scheme != at.Scheme || to.Host != at.Host:
		return false, fmt.Errorf("has a link to another host, %s, which is not followed", quoted(t.veil.over(to.Host)))
	case w.seen[to.String()]:
		return false, fmt.Errorf("has a link that it gave before: after %d pages the list goes round in a circle",
			w.pages)
	}
	w.seen[to.String()] = true
	to.Fragment, to.User = "", nil
	w.question.link = to
	return true, nil
}

// byCount goes on until as many pages or entries are read as the last page says that there are.
func (w *walk) byCount(next *paging, s source, entries int) (more bool, err error) {
	all, err := next.at.whole(s)
	if err != nil {
		return false, err
	}
	read := w.entries
	if next.form == byPages {
		read = w.pages
	}
	if int64(read) < all && entries > 0 {
		return true, nil
	}
	if next.form == byTotal && int64(read) != all || int64(read) < all {
		w.hint = fmt.Sprintf("%s: %d, and %d were read", next.at.text, all, read)
	}
	return false, nil
}

// A link of a Link header (RFC 8288) that has rel="next".
var linkToNext = regexp.MustCompile(`(?i)<([^>]*)>[^<]*;\s*rel\s*=\s*(next\b|"([^"]*\s)?next[\s"])`)

// nextLink returns the address of the next page, or "".
func nextLink(h http.Header) string {
	for _, link := range h.Values("Link") {
		if found := linkToNext.FindStringSubmatch(link); found != nil {
			return found[1]
		}
	}
	return ""
}

// furtherPages returns the header of a list's last page that announces more pages or orders than were read, or "".
func furtherPages(h http.Header, pages, orders int) string {
	for _, link := range h.Values("Link") {
		if linkToNext.MatchString(link) {
			return "Link: " + link
		}
	}
	for _, count := range []struct {
		header string
		read   int
	}{{"X-WP-TotalPages", pages}, {"X-WP-Total", orders}} {
		if all, err := strconv.Atoi(h.Get(count.header)); err == nil && all > count.read {
			return fmt.Sprintf("%s: %d", count.header, all)
		}
	}
	return ""
}

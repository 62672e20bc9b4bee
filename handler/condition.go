package handler

import (
	"net/http"
	"regexp"
	"strings"

	"example.com/stock/service"
)

// ownTag matches an entity tag of this service, without its quotes. Other tags are valid and match nothing.
var ownTag = regexp.MustCompile(`^[0-9]{1,20}(-[0-9]{1,20}){1,2}$`)

// condition reads If-Match and If-None-Match (RFC 9110, 13.1). If-Match compares strongly, so a weak tag matches
// nothing. If-None-Match compares weakly. The error is an InvalidError that names the header.
func condition(h http.Header) (c service.Condition, err error) {
	if c.Match, err = parseTags(h, "If-Match", false); err == nil {
		c.NoneMatch, err = parseTags(h, "If-None-Match", true)
	}
	return c, err
}

// parseTags reads a list of entity tags. It returns nil if the header is missing, and service.AnyTag for "*". Several
// header lines are one list, and empty elements are skipped.
func parseTags(h http.Header, name string, weak bool) ([]string, error) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return nil, nil
	}
	text := strings.Join(lines, ",")
	if strings.Trim(text, " \t") == service.AnyTag {
		return []string{service.AnyTag}, nil
	}
	tags := []string{} // not nil: there is a condition, even if it can never hold
	found := 0
	for rest := strings.TrimLeft(text, " \t,"); rest != ""; found++ {
		bare, isWeak := strings.CutPrefix(rest, "W/")
		inside, opened := strings.CutPrefix(bare, `"`)
		tag, after, closed := strings.Cut(inside, `"`)
		rest = strings.TrimLeft(after, " \t")
		if !opened || !closed || strings.ContainsFunc(tag, noTag) || rest != "" && rest[0] != ',' {
			return nil, badTags(name)
		}
		if ownTag.MatchString(tag) && (weak || !isWeak) {
			tags = append(tags, tag)
		}
		rest = strings.TrimLeft(rest, " \t,")
	}
	if found == 0 {
		return nil, badTags(name)
	}
	return tags, nil
}

func badTags(name string) error {
	return service.Invalid(name, "etag", "example", `"2-17"`)
}

// noTag reports whether r cannot be part of a tag: a blank, a control or a quote. Bytes beyond ASCII can.
func noTag(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' }

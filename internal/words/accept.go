package words

import (
	"strconv"
	"strings"
)

// maxRanges bounds how much of an Accept-Language header is read.
const maxRanges = 32

// Accept returns the language that the header Accept-Language asks for (RFC 9110, 12.5.4): of English and Chinese the
// one with the higher quality; of two with the same, the one that is named first. "*" stands for English. Without a
// header, or if it asks for neither, it is English. What is not well-formed counts as if it were not there.
func Accept(header string) string {
	chosen, most := English, 0.0
	n := 0
	for part := range strings.SplitSeq(header, ",") {
		if n++; n > maxRanges {
			break
		}
		name, parameters, _ := strings.Cut(part, ";")
		lang := languageOf(strings.TrimSpace(name))
		if q := quality(parameters); lang != "" && q > most {
			chosen, most = lang, q
		}
	}
	return chosen
}

// languageOf returns the language of a range, or "" if it is neither of ours.
func languageOf(name string) string {
	primary, _, _ := strings.Cut(name, "-")
	switch {
	case strings.EqualFold(primary, Chinese):
		return Chinese
	case strings.EqualFold(primary, English) || name == "*":
		return English
	}
	return ""
}

// quality returns the q of a range, from 0 to 1; without one it is 1, and of one that is not well-formed 0.
func quality(parameters string) float64 {
	parameters = strings.TrimSpace(parameters)
	if parameters == "" {
		return 1
	}
	name, value, _ := strings.Cut(parameters, "=")
	value = strings.TrimSpace(value)
	digits := strings.Trim(value, "0123456789") // leaves the dot, if it is a number as the RFC has it
	q, err := strconv.ParseFloat(value, 64)
	if !strings.EqualFold(strings.TrimSpace(name), "q") || err != nil || digits != "" && digits != "." || q > 1 {
		return 0
	}
	return q
}

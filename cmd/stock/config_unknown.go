package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// kubernetes matches the variables that Kubernetes sets in every pod for a Service called "stock". They are not ours to refuse.
var kubernetes = regexp.MustCompile(`^STOCK_(SERVICE_(HOST|PORT)|PORT)(_|=)`)

func unknownEnv(environ []string) (bad []error) {
	var known []string
	for _, s := range settings() {
		known = append(known, s.env())
	}
	known = append(known, envPrefix+"CONFIG")
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !kubernetes.MatchString(pair) {
			bad = append(bad, fmt.Errorf("%s: unknown variable%s", name, nearest(name, known, envPrefix)))
		}
	}
	return bad
}

// nearest suggests the key that was probably meant: the one that begins like it for longest, by more than prefix and three letters.
func nearest(key string, known []string, prefix string) string {
	best, length := "", len(prefix)+3
	for _, k := range known {
		n := 0
		for n < min(len(k), len(key)) && k[n] == key[n] {
			n++
		}
		if n > length {
			best, length = k, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

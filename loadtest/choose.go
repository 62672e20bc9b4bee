package loadtest

import (
	"fmt"
	"slices"
	"strings"
)

// Find returns the strategy called name. The error is a PlanError that lists the names there are.
func Find(catalogue []Strategy, name string) (Strategy, error) {
	i := slices.IndexFunc(catalogue, func(s Strategy) bool { return s.Name == name })
	if i < 0 {
		return Strategy{}, &PlanError{"strategy", fmt.Sprintf("%q is not known to the target; it has %s", name, names(catalogue))}
	}
	return catalogue[i], nil
}

// Choose returns the strategies with the given names, in that order, or with the single name "all" those of the catalogue that can run
// now on store (empty: on any); leftOut then says in a sentence each which cannot, and why. Errors are PlanErrors.
func Choose(catalogue []Strategy, given []string, store string) (chosen []Strategy, leftOut []string, err error) {
	bad := func(format string, args ...any) ([]Strategy, []string, error) {
		return nil, nil, &PlanError{"strategy", fmt.Sprintf(format, args...)}
	}
	switch {
	case len(given) == 0:
		return bad("is missing: give a name, several with commas, or all; the target has %s", names(catalogue))
	case slices.Equal(given, []string{"all"}):
		for _, s := range catalogue {
			switch {
			case !s.Available:
				leftOut = append(leftOut, fmt.Sprintf("%s is left out: %s", s.Name, s.Reason))
			case store != "" && len(s.Stores) > 0 && !slices.Contains(s.Stores, store):
				leftOut = append(leftOut, fmt.Sprintf("%s is left out: it works on %s, not on %s", s.Name, strings.Join(s.Stores, " and "), store))
			default:
				chosen = append(chosen, s)
			}
		}
		if len(chosen) == 0 {
			return bad("the target can run none now (%s)", strings.Join(leftOut, "; "))
		}
		return chosen, leftOut, nil
	}
	for i, name := range given {
		if name == "all" {
			return bad("all stands alone, without other names")
		}
		if slices.Contains(given[:i], name) {
			return bad("%s is named twice", name)
		}
		s, err := Find(catalogue, name)
		if err != nil {
			return nil, nil, err
		}
		chosen = append(chosen, s)
	}
	return chosen, nil, nil
}

func names(catalogue []Strategy) string {
	list := make([]string, len(catalogue))
	for i, s := range catalogue {
		list[i] = s.Name
	}
	return strings.Join(list, ", ")
}

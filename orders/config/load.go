package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/viper"
)

const prefix = "ORDERS_"

// kubernetes matches what Kubernetes sets in a pod for a Service whose name begins with orders.
var kubernetes = regexp.MustCompile(
	`^ORDERS_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT)|PORT)(_[A-Z0-9_]+)?=((tcp|udp|sctp)|[0-9a-f.:]+$)`)

// Load reads the settings. Without a file it takes the one that ORDERS_CONFIG names, or orders.yaml, if there is one.
// An error names the setting and what it may be, and never its value, which may be a secret.
func Load(file string) (*Config, []Setting, error) {
	c := &Config{}
	all := c.settings()
	v := viper.New()
	if file == "" {
		file = os.Getenv(prefix + "CONFIG")
	}
	if _, err := os.Stat("orders.yaml"); file == "" && err == nil {
		file = "orders.yaml"
	}
	if file != "" {
		v.SetConfigFile(file)
		if err := v.ReadInConfig(); err != nil {
			return nil, nil, fmt.Errorf("settings: %w", err)
		}
	}
	given := slices.DeleteFunc(v.AllKeys(), func(key string) bool { return v.Get(key) == nil })
	bad := unknown(given, os.Environ(), all)
	for i := range all {
		s := &all[i]
		value := s.standard
		s.Source = "default"
		if v.InConfig(s.Key) {
			value, s.Source = v.Get(s.Key), file
		}
		if text := os.Getenv(s.env()); text != "" { // an empty one is as if it were absent
			value, s.Source = text, s.env()
		}
		if err := s.set(value); err != nil {
			bad = append(bad, fmt.Errorf("%s (from %s): %w", s.Key, s.Source, err))
		}
	}
	if err := errors.Join(bad...); err != nil {
		return nil, nil, fmt.Errorf("settings: %w", err)
	}
	return c, all, nil
}

func (s *Setting) env() string { return prefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_")) }

// unknown returns an error for every name that no setting has.
func unknown(keys, environ []string, all []Setting) (bad []error) {
	known := map[string]bool{prefix + "CONFIG": true}
	for _, s := range all {
		known[s.Key], known[s.env()] = true, true
	}
	for _, pair := range environ {
		if strings.HasPrefix(pair, prefix) && !kubernetes.MatchString(pair) {
			name, _, _ := strings.Cut(pair, "=")
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if known[key] {
			continue
		}
		meant := slices.MinFunc(slices.Sorted(maps.Keys(known)), func(a, b string) int {
			return distance(key, a) - distance(key, b)
		})
		bad = append(bad, fmt.Errorf("%s: there is no such setting; the nearest is %s", key, meant))
	}
	return bad
}

// distance returns how many letters are to be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := last
			if a[i] != b[j] {
				changed++
			}
			last = row[j+1]
			row[j+1] = min(changed, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}

// set gives the setting a value from a file, from the environment or from the table.
func (s *Setting) set(value any) error {
	if list, ok := value.([]any); ok { // of a file
		texts := []string{}
		for _, item := range list {
			texts = append(texts, fmt.Sprint(item))
		}
		value = texts
	}
	field := reflect.ValueOf(s.field).Elem()
	if v := reflect.ValueOf(value); v.IsValid() && v.Type() == field.Type() {
		field.Set(v)
		return s.check()
	}
	text, err := fmt.Sprint(value), error(nil)
	switch f := s.field.(type) {
	case *string:
		*f = text
		if reflect.ValueOf(value).Kind() == reflect.Map || reflect.ValueOf(value).Kind() == reflect.Slice {
			return errors.New("must be text")
		}
	case *int:
		if *f, err = strconv.Atoi(text); err != nil {
			return errors.New("must be a whole number")
		}
	case *bool:
		if *f, err = strconv.ParseBool(text); err != nil {
			return errors.New("must be true or false")
		}
	case *time.Duration:
		if *f, err = time.ParseDuration(text); err != nil {
			return errors.New("must be a time such as 20s or 24h")
		}
	case *[]string:
		*f = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	}
	return s.check()
}

// Print writes what is in force as a file, with where each setting comes from. Of a secret it shows only whether it is
// set.
func Print(w io.Writer, all []Setting) error {
	for _, s := range all {
		field := reflect.ValueOf(s.field).Elem()
		value := fmt.Sprint(field.Interface())
		switch {
		case s.secret() && !field.IsZero():
			value = `"***"`
		case field.Kind() == reflect.String:
			value = strconv.Quote(value)
		}
		if _, err := fmt.Fprintf(w, "# %s.\n%s: %s # %s\n", s.About, s.Key, value, s.Source); err != nil {
			return err
		}
	}
	return nil
}

func within[N int | time.Duration](field *N, least, most N) func() error {
	return func() error {
		if *field < least || *field > most {
			return fmt.Errorf("must be from %v to %v", least, most)
		}
		return nil
	}
}

func oneOf(field *string, values ...string) func() error {
	return func() error {
		if !slices.Contains(values, *field) {
			return fmt.Errorf("must be one of %s", strings.Join(values, ", "))
		}
		return nil
	}
}

func address(field *string) func() error {
	return func() error {
		_, port, err := net.SplitHostPort(*field)
		if _, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil {
			return errors.New("must be a host and a port from 0 to 65535, such as :8080 or 127.0.0.1:8080")
		}
		return nil
	}
}

func link(field *string, schemes ...string) func() error {
	return func() error {
		u, err := url.Parse(*field)
		switch {
		case *field == "":
			return nil
		case err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "":
			return fmt.Errorf("must be such as %s://host", strings.Join(schemes, ":// or "))
		case u.User != nil && strings.HasPrefix(u.Scheme, "http"):
			return errors.New("must have no password in it")
		}
		return nil
	}
}

func pattern(field *string, like string) func() error {
	return func() error {
		if !regexp.MustCompile(like).MatchString(*field) {
			return fmt.Errorf("must match %s", like)
		}
		return nil
	}
}

func anything() error { return nil }

package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

const (
	envPrefix  = "STOCK_"
	configFlag = "config"
	// fileSuffix makes the key of a secret the key of the file that contains it.
	fileSuffix = "_file"
)

// flagOf returns the name of a key on the command line: redis.url is --redis-url.
func flagOf(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

// envOf returns the name of a key in the environment: redis.url is STOCK_REDIS_URL.
func envOf(key string) string { return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")) }

// AddFlags adds a flag for every setting, and --config, to flags. The flags of files that contain secrets are hidden,
// because they all mean the same.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(configFlag, "", "configuration file: YAML, TOML or JSON")
	for _, s := range new(Config).settings() {
		name := flagOf(s.key)
		switch value := s.value.(type) {
		case string:
			flags.String(name, value, s.about)
		case bool:
			flags.Bool(name, value, s.about)
		case int:
			flags.Int(name, value, s.about)
		case time.Duration:
			flags.Duration(name, value, s.about)
		case []string:
			flags.StringSlice(name, value, s.about)
		}
		if s.secret {
			file := flagOf(s.key + fileSuffix)
			flags.String(file, "", "file that contains "+s.key)
			flags.Lookup(file).Hidden = true
		}
	}
}

// Load reads the configuration and checks it. flags must be from [AddFlags]. The error names every wrong key.
func Load(flags *pflag.FlagSet) (Config, error) {
	var c Config
	settings := c.settings()
	v := viper.New()
	v.AllowEmptyEnv(true) // STOCK_REDIS_URL= means no Redis, not the default one
	var bad []error
	for _, s := range settings {
		v.SetDefault(s.key, s.value)
	}
	keys := allKeys(settings)
	for _, key := range keys {
		bad = append(bad, v.BindEnv(key, envOf(key)), v.BindPFlag(key, flags.Lookup(flagOf(key))))
	}
	file, _ := flags.GetString(configFlag)
	if file == "" {
		file = os.Getenv(envOf(configFlag))
	}
	if file != "" {
		v.SetConfigFile(file)
		if err := v.ReadInConfig(); err != nil {
			return Config{}, fmt.Errorf("read %s: %w", filepath.Base(file), err)
		}
	}
	bad = append(bad, unknownKeys(v, keys)...)
	bad = append(bad, unknownVariables(os.Environ(), keys)...)
	for _, s := range settings {
		bad = append(bad, s.load(v))
	}
	bad = append(bad, c.check()...)
	if err := errors.Join(bad...); err != nil {
		return Config{}, fmt.Errorf("configuration:\n%w", err)
	}
	return c, nil
}

// allKeys returns the keys of settings, with those of the files of secrets.
func allKeys(settings []setting) (keys []string) {
	for _, s := range settings {
		keys = append(keys, s.key)
		if s.secret {
			keys = append(keys, s.key+fileSuffix)
		}
	}
	return keys
}

// load sets the field of the setting from v. The error names the key.
func (s setting) load(v *viper.Viper) error {
	if s.secret {
		if err := s.readFile(v); err != nil {
			return err
		}
	}
	if err := fill(s.field, v.Get(s.key)); err != nil {
		return fmt.Errorf("%s: %w", s.key, err)
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("%s: %w", s.key, err)
	}
	return nil
}

// readFile sets the secret in v to the content of its file, if v names one. The last line break is no part of it.
func (s setting) readFile(v *viper.Viper) error {
	path := v.GetString(s.key + fileSuffix)
	if path == "" {
		return nil
	}
	if text := fmt.Sprint(v.Get(s.key)); text != "" && text != fmt.Sprint(s.value) {
		return fmt.Errorf("%s: is set, and so is %s%s: set one of them", s.key, s.key, fileSuffix)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s%s: %w", s.key, fileSuffix, err)
	}
	v.Set(s.key, strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"))
	return nil
}

// fill sets field to a value from a file, a variable or a flag. It is stricter than viper: a number is not a duration
// (nobody means nanoseconds), 1.5 is not 1, and a number is not a text, because YAML reads 0123 as 83. The errors do
// not quote the value, which may be a secret.
func fill(field, value any) (err error) {
	text := fmt.Sprint(value)
	if n, is := value.(float64); is { // JSON has no other numbers
		text = strconv.FormatFloat(n, 'f', -1, 64)
	}
	switch field := field.(type) {
	case *string:
		var is bool
		if *field, is = value.(string); !is {
			return errors.New("is not text (in quotes, if it looks like something else)")
		}
	case *bool:
		if *field, err = strconv.ParseBool(cmp.Or(text, "false")); err != nil {
			return errors.New("is not true or false")
		}
	case *int:
		if *field, err = strconv.Atoi(text); err != nil {
			return errors.New("is not a whole number")
		}
	case *time.Duration:
		if *field, err = time.ParseDuration(text); err != nil {
			return errors.New("is not a duration with its unit, such as 500ms or 10s")
		}
	case *[]string:
		var is bool
		if *field, is = list(value); !is {
			return errors.New("is not a list, or text with commas")
		}
	}
	return nil
}

// list splits at commas, and removes blanks and empty items: "" is the empty list.
func list(value any) (items []string, ok bool) {
	switch value := value.(type) {
	case string:
		items = strings.Split(value, ",")
	case []string:
		items = slices.Clone(value)
	case []any:
		for _, item := range value {
			items = append(items, fmt.Sprint(item))
		}
	default:
		return nil, false
	}
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return slices.DeleteFunc(items, func(item string) bool { return item == "" }), true
}

func unknownKeys(v *viper.Viper, known []string) (bad []error) {
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		if slices.Contains(known, key) {
			continue
		}
		// A section whose lines are all commented out also appears as a key. It means the defaults.
		if _, section := v.Get(key).(map[string]any); !section {
			bad = append(bad, unknown(key, "key", nearest(key, known, "")))
		}
	}
	return bad
}

// kubernetes matches the variables that Kubernetes sets in every pod for each Service of the namespace whose name
// begins with "stock", in the style of Docker links. They are tolerated.
var kubernetes = regexp.MustCompile(`^STOCK_([A-Z0-9_]+_)?(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)`)

func unknownVariables(environ, keys []string) (bad []error) {
	known := []string{envOf(configFlag), envOf("lang")} // LANG: language of the commands' texts
	for _, key := range keys {
		known = append(known, envOf(key))
	}
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !kubernetes.MatchString(pair) {
			bad = append(bad, unknown(name, "variable", nearest(name, known, envPrefix)))
		}
	}
	return bad
}

// unknown returns the error for an unknown key or variable. meant is the suggestion, or "".
func unknown(name, what, meant string) error {
	if meant == "" {
		return fmt.Errorf("%s: unknown %s", name, what)
	}
	return fmt.Errorf("%s: unknown %s (did you mean %s?)", name, what, meant)
}

// nearest suggests a correction of key: the one in known with the longest common prefix. It returns "" unless the
// common part is more than three letters longer than prefix.
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
	return best
}

// WriteYAML writes every setting, with what it means, as a configuration file. Of a secret it shows only whether it is
// set.
func (c Config) WriteYAML(w io.Writer) {
	section := ""
	for _, s := range c.settings() {
		group, name, nested := strings.Cut(s.key, ".")
		indent := ""
		if !nested {
			name = s.key
		} else {
			indent = "  "
			if group != section {
				fmt.Fprintf(w, "%s:\n", group)
			}
			section = group
		}
		fmt.Fprintf(w, "%s# %s\n%s%s: %s\n", indent, s.about, indent, name, s.yaml())
	}
}

// yaml formats the value of the setting for a file.
func (s setting) yaml() string {
	value := reflect.ValueOf(s.field).Elem()
	if s.secret && value.Len() > 0 && !reflect.DeepEqual(value.Interface(), s.value) {
		return `"***"`
	}
	switch field := s.field.(type) {
	case *[]string:
		quoted := make([]string, len(*field))
		for i, item := range *field {
			quoted[i] = strconv.Quote(item)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case *string:
		return strconv.Quote(*field)
	default:
		return fmt.Sprint(value)
	}
}

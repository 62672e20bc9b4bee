package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
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
	if err := v.UnmarshalKey(s.key, s.field, viper.DecodeHook(strictly)); err != nil {
		return fmt.Errorf("%s: is not %s", s.key, s.accepted()) // err may quote a secret
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

var errType = errors.New("another kind of value")

// strictly converts a value from a file, a variable or a flag to the type of a field. It is stricter than viper: a
// number is not a duration (nobody means nanoseconds), 1.5 is not 1, and a number is not a text, because YAML reads
// 0123 as 83.
func strictly(_, to reflect.Type, value any) (any, error) {
	text, isText := value.(string)
	switch to {
	case reflect.TypeFor[string]():
		if !isText {
			return nil, errType
		}
	case reflect.TypeFor[bool]():
		if isText {
			return strconv.ParseBool(cmp.Or(text, "false"))
		}
		if _, isBool := value.(bool); !isBool {
			return nil, errType
		}
	case reflect.TypeFor[int]():
		return whole(value)
	case reflect.TypeFor[time.Duration]():
		if isText {
			return time.ParseDuration(text)
		}
		if _, isDuration := value.(time.Duration); !isDuration {
			return nil, errType
		}
	case reflect.TypeFor[[]string]():
		return list(value)
	}
	return value, nil
}

// accepted describes what strictly accepts.
func (s setting) accepted() string {
	switch s.value.(type) {
	case bool:
		return "true or false"
	case int:
		return "a whole number"
	case time.Duration:
		return "a duration with its unit, such as 500ms or 10s"
	case []string:
		return "a list, or text with commas"
	default:
		return "text (in quotes, if it looks like something else)"
	}
}

func whole(value any) (int, error) {
	switch n := value.(type) {
	case int:
		return n, nil
	case int64: // TOML
		return int(n), nil
	case float64: // JSON has no other numbers
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int(n), nil
		}
	case string:
		return strconv.Atoi(n)
	}
	return 0, errType
}

// list splits at commas, and removes blanks and empty items: "" is the empty list.
func list(value any) ([]string, error) {
	var items []string
	switch l := value.(type) {
	case string:
		items = strings.Split(l, ",")
	case []string:
		items = l
	case []any:
		for _, item := range l {
			text, isText := item.(string)
			if !isText {
				return nil, errType
			}
			items = append(items, text)
		}
	default:
		return nil, errType
	}
	kept := []string{}
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

func unknownKeys(v *viper.Viper, known []string) (bad []error) {
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		if slices.Contains(known, key) {
			continue
		}
		// A section whose lines are all commented out also appears as a key. It means the defaults.
		if _, section := v.Get(key).(map[string]any); !section {
			same := func(key string) string { return key }
			bad = append(bad, unknown(key, "key", nearest(key, known, ""), same))
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
			bad = append(bad, unknown(name, "variable", nearest(name, known, envPrefix), envOf))
		}
	}
	return bad
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

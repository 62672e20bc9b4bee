package app

import (
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

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"example.com/stock/internal/words"
)

// A setting is one key of the configuration: a flag, an environment variable, a line of a file and a line of "stock
// config". The catalogue of texts describes it, by its key.
type setting struct {
	field  any // a pointer to the field of a Config; the field's type is the setting's
	key    string
	value  any // the default
	secret bool
}

// flag returns the name of the setting on the command line: redis.pool_size is --redis-pool-size.
func (s setting) flag() string {
	return strings.ReplaceAll(strings.ReplaceAll(s.key, ".", "-"), "_", "-")
}

// env returns the name of the setting in the environment: redis.pool_size is STOCK_REDIS_POOL_SIZE.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// AddFlags adds a flag for every setting, and --config, to flags. Their usage is in English; [Usage] returns it in both
// languages.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(configFlag, "", configUsage().EN)
	for _, s := range new(Config).settings() {
		usage := s.usage().EN
		switch v := s.value.(type) {
		case string:
			flags.String(s.flag(), v, usage)
		case bool:
			flags.Bool(s.flag(), v, usage)
		case int:
			flags.Int(s.flag(), v, usage)
		case int64:
			flags.Int64(s.flag(), v, usage)
		case time.Duration:
			flags.Duration(s.flag(), v, usage)
		case []string:
			flags.StringSlice(s.flag(), v, usage)
		}
	}
}

// Load reads the configuration and checks it. flags must be from [AddFlags]. The error names every wrong key.
func Load(flags *pflag.FlagSet) (Config, error) {
	var c Config
	settings := c.settings()
	v := viper.New()
	v.AllowEmptyEnv(true) // STOCK_REDIS_ADDRS= means no Redis, not the default one
	var known []string
	var bad []error
	for _, s := range settings {
		v.SetDefault(s.key, s.value)
		bad = append(bad, v.BindEnv(s.key, s.env()), v.BindPFlag(s.key, flags.Lookup(s.flag())))
		known = append(known, s.key)
	}
	file, _ := flags.GetString(configFlag)
	if file == "" {
		file = os.Getenv(envPrefix + "CONFIG")
	}
	if file != "" {
		v.SetConfigFile(file)
		if err := v.ReadInConfig(); err != nil {
			return Config{}, failure("read", "file", filepath.Base(file), "why", err)
		}
	}
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		if slices.Contains(known, key) {
			continue
		}
		// A section whose lines are all commented out also appears as a key. It means the defaults.
		if _, section := v.Get(key).(map[string]any); !section {
			bad = append(bad, unknown(key, "key", nearest(key, known, ""), func(s setting) string { return s.key }))
		}
	}
	bad = append(bad, unknownEnv(os.Environ(), settings)...)
	for _, s := range settings {
		value, ok := s.parse(v.Get(s.key))
		if !ok {
			// The error does not quote the value, which may be a secret.
			bad = append(bad, wrong(s.key, "kind", "kind", s.kind()))
			value = s.value
		}
		reflect.ValueOf(s.field).Elem().Set(reflect.ValueOf(value))
	}
	bad = append(bad, c.readSecrets(settings)...)
	bad = append(bad, c.check()...)
	if err := errors.Join(bad...); err != nil {
		return Config{}, failure("configuration", "what", err)
	}
	return c, nil
}

// kubernetes matches the variables that Kubernetes sets in every pod for each Service of the namespace whose name
// begins with "stock", in the style of Docker links. They are tolerated.
var kubernetes = regexp.MustCompile(`^STOCK_([A-Z0-9_]+_)?(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)`)

func unknownEnv(environ []string, settings []setting) (bad []error) {
	known := []string{envPrefix + "CONFIG", envPrefix + "LANG"} // LANG: language of the commands' texts
	for _, s := range settings {
		known = append(known, s.env())
	}
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !kubernetes.MatchString(pair) {
			bad = append(bad, unknown(name, "variable", nearest(name, known, envPrefix), setting.env))
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

// instead lists the settings that are gone, with the text that says what to use instead of each.
func instead() map[string]string {
	const tls = "gone-listener-tls"
	return map[string]string{
		"tls.cert": tls, "tls.key": tls, "tls.client_ca": tls,
		"admin.tls.cert": tls, "admin.tls.key": tls, "admin.tls.client_ca": tls,
	}
}

// FlagError returns an error of flags with what to use instead, if it is about the flag of a setting that is gone.
func FlagError(err error) error {
	if absent, ok := errors.AsType[*pflag.NotExistError](err); ok {
		for key, why := range instead() {
			if (setting{key: key}).flag() == absent.GetSpecifiedName() {
				return wrong("--"+absent.GetSpecifiedName(), why)
			}
		}
	}
	return err
}

// unknown returns the error for an unknown key or variable. meant is the suggestion, or "". written returns the name of
// a setting as it is written there.
func unknown(name, what, meant string, written func(setting) string) error {
	for key, why := range instead() {
		if written(setting{key: key}) == name {
			return wrong(name, why)
		}
	}
	if meant == "" {
		return wrong(name, "unknown-"+what)
	}
	return wrong(name, "meant-"+what, "meant", meant)
}

// wrong returns the error for a setting: its key and a text of the catalogue.
func wrong(key, why string, pairs ...any) error {
	return fmt.Errorf("%s: %w", key, failure(why, pairs...))
}

// failure returns a text of the catalogue as an error.
func failure(why string, pairs ...any) error { return phrases.Error("wrong."+why, pairs...) }

// isEmpty returns the error for an empty setting that a command needs.
func isEmpty(key, flag, env string) error {
	return failure("empty", "key", key, "flag", flag, "env", env)
}

// parse converts a value from a file, a variable or a flag to the type of the setting. It is stricter than viper: a
// number is not a duration (nobody means nanoseconds), 1.5 is not 1, and a number is not a text, because YAML reads
// 0123 as 83.
func (s setting) parse(raw any) (value any, ok bool) {
	text, isText := raw.(string)
	switch s.value.(type) {
	case string:
		return text, isText
	case bool:
		if isText && text != "" {
			b, err := strconv.ParseBool(text)
			return b, err == nil
		}
		b, isBool := raw.(bool)
		return b, isBool || isText // empty: false
	case int:
		n, ok := whole(raw)
		return int(n), ok
	case int64:
		return whole(raw)
	case time.Duration:
		if isText {
			d, err := time.ParseDuration(text)
			return d, err == nil
		}
		d, isDuration := raw.(time.Duration)
		return d, isDuration
	case []string:
		return list(raw)
	}
	return nil, false
}

// kind describes what parse accepts.
func (s setting) kind() words.Text {
	switch s.value.(type) {
	case bool:
		return phrases.Say("kind.bool")
	case int, int64:
		return phrases.Say("kind.number")
	case time.Duration:
		return phrases.Say("kind.duration")
	case []string:
		return phrases.Say("kind.list")
	default:
		return phrases.Say("kind.text")
	}
}

func whole(raw any) (int64, bool) {
	switch n := raw.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64: // JSON has no other numbers
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// list splits at commas, and removes blanks and empty items: "" is the empty list.
func list(raw any) ([]string, bool) {
	var items []string
	switch l := raw.(type) {
	case string:
		items = strings.Split(l, ",")
	case []string:
		items = l
	case []any:
		for _, item := range l {
			text, isText := item.(string)
			if !isText {
				return nil, false
			}
			items = append(items, text)
		}
	default:
		return nil, false
	}
	kept := []string{}
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			kept = append(kept, item)
		}
	}
	return kept, true
}

// WriteYAML writes every setting, with its usage in a language and with secrets masked, as a configuration file.
func (c Config) WriteYAML(w io.Writer, lang string) {
	var groups []string
	for _, s := range c.settings() {
		path := strings.Split(s.key, ".")
		for i, group := range path[:len(path)-1] {
			if i < len(groups) && groups[i] == group {
				continue
			}
			groups = append(groups[:i], group)
			fmt.Fprintf(w, "%s%s:\n", strings.Repeat("  ", i), group)
		}
		groups = groups[:len(path)-1]
		value := s.yaml()
		if c.file(s.key).Path != "" {
			value = `""` // the file has it, and the key must not be set, too
		}
		indent := strings.Repeat("  ", len(groups))
		fmt.Fprintf(w, "%s# %s\n%s%s: %s\n", indent, s.meaning().In(lang), indent, path[len(groups)], value)
	}
}

// yaml formats the value of the setting for a file.
func (s setting) yaml() string {
	switch field := s.field.(type) {
	case *[]string:
		quoted := make([]string, len(*field))
		for i, item := range *field {
			quoted[i] = strconv.Quote(item)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case *string:
		if s.secret {
			return strconv.Quote(masked(s.key, *field))
		}
		return strconv.Quote(*field)
	default:
		return fmt.Sprint(reflect.ValueOf(s.field).Elem())
	}
}

// hidden stands for a secret.
const hidden = "***"

// masked hides a secret but shows whether it is set. In the DSN, and in the users of ZooKeeper, it hides only the
// password. Other secrets are hidden completely, even if they look like a DSN.
func masked(key, secret string) string {
	if secret == "" {
		return ""
	}
	switch key {
	case "mysql.dsn":
		dsn, err := mysql.ParseDSN(secret)
		if err != nil {
			return hidden
		}
		if dsn.Passwd != "" {
			dsn.Passwd = hidden
		}
		return dsn.FormatDSN()
	case "zookeeper.credentials":
		users, _ := list(secret)
		for i := range users {
			name, _, _ := strings.Cut(users[i], ":")
			users[i] = name + ":" + hidden
		}
		return strings.Join(users, ",")
	}
	return hidden
}

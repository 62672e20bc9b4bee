package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// addConfigFlags gives flags a flag for every setting, and --config.
func addConfigFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "configuration file: YAML, TOML or JSON (STOCK_CONFIG)")
	for _, s := range settings() {
		help := s.help + " (" + s.env() + ")"
		switch v := s.value.(type) {
		case string:
			flags.String(s.flag(), v, help)
		case bool:
			flags.Bool(s.flag(), v, help)
		case int:
			flags.Int(s.flag(), v, help)
		case int64:
			flags.Int64(s.flag(), v, help)
		case time.Duration:
			flags.Duration(s.flag(), v, help)
		case []string:
			flags.StringSlice(s.flag(), v, help)
		}
	}
}

// loadConfig reads the configuration and checks it. The error names every key that is wrong.
func loadConfig(flags *pflag.FlagSet) (Config, *viper.Viper, error) {
	v := viper.New()
	v.AllowEmptyEnv(true) // STOCK_REDIS_ADDRS= means no Redis, not the default one
	var known []string
	var bad []error
	for _, s := range settings() {
		v.SetDefault(s.key, s.value)
		bad = append(bad, v.BindEnv(s.key, s.env()), v.BindPFlag(s.key, flags.Lookup(s.flag())))
		known = append(known, s.key)
	}
	file, _ := flags.GetString("config")
	if file == "" {
		file = os.Getenv(envPrefix + "CONFIG")
	}
	if file != "" {
		v.SetConfigFile(file)
		if err := v.ReadInConfig(); err != nil {
			return Config{}, nil, fmt.Errorf("read %s: %w", filepath.Base(file), err)
		}
	}
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		// A section whose lines are all commented out is a key, too. What it stands for is the defaults.
		if _, section := v.Get(key).(map[string]any); !section && !slices.Contains(known, key) {
			bad = append(bad, fmt.Errorf("%s: unknown key%s", key, nearest(key, known, "")))
		}
	}
	bad = append(bad, unknownEnv(os.Environ())...)
	for _, s := range settings() {
		value, ok := s.parse(v.Get(s.key))
		if !ok {
			// The value itself is not quoted: it may be a secret.
			bad = append(bad, fmt.Errorf("%s: is not %s", s.key, s.sort()))
			value = s.value
		}
		v.Set(s.key, value)
	}
	var c Config
	bad = append(bad, v.Unmarshal(&c))
	bad = append(bad, c.check()...)
	if err := errors.Join(bad...); err != nil {
		return Config{}, nil, fmt.Errorf("configuration:\n%w", err)
	}
	c.complete()
	return c, v, nil
}

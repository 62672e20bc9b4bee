package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// configure is what holds with args.
func configure(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("stock", pflag.ContinueOnError)
	addConfigFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, _, err := loadConfig(flags)
	return c, err
}

func mustConfigure(t *testing.T, args ...string) Config {
	t.Helper()
	c, err := configure(t, args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c
}

// file writes a configuration file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// field is the value that c has for a key.
func field(t *testing.T, c Config, key string) any {
	t.Helper()
	v := reflect.ValueOf(c)
	for part := range strings.SplitSeq(key, ".") {
		v = v.FieldByNameFunc(func(name string) bool {
			f, _ := v.Type().FieldByName(name)
			tag := f.Tag.Get("mapstructure")
			return tag == part || tag == "" && strings.EqualFold(name, part)
		})
		if !v.IsValid() {
			t.Fatalf("Config has no field for %s", key)
		}
	}
	return v.Interface()
}

// other is a valid value of s that is not its default.
func other(t *testing.T, s setting) any {
	t.Helper()
	switch def := s.value.(type) {
	case bool:
		return !def
	case int:
		return def + 1
	case int64:
		return def + 1
	case time.Duration:
		return def + 500*time.Millisecond
	case []string:
		return []string{"10.0.0.1:1001", "10.0.0.2:1002", "10.0.0.3:1003"}
	case string:
		if text, ok := map[string]string{
			"addr": "127.0.0.1:9", "admin.addr": ":9091", "instance": "app-9", "admin_token": "t0ken: #1", "store": "mysql", "log.level": "debug", "log.format": "text",
			"seed.sku": "other", "redis.master_name": "mymaster", "redis.username": "you", "redis.password": `p"\$ 'x`,
			"redis.sentinel_password": "q", "zookeeper.root": "/a/b", "mysql.dsn": "u:p#1@tcp(db:3306)/shop",
		}[s.key]; ok {
			return text
		}
	}
	t.Fatalf("%s: no value to try; add one here", s.key)
	return nil
}

// asText is a value as a flag and a variable have it.
func asText(value any) string {
	if list, ok := value.([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(value)
}

// asFile is settings in a file of that format.
func asFile(t *testing.T, format string, values map[string]any) string {
	t.Helper()
	tree := make(map[string]any)
	for key, value := range values {
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		if group, name, nested := strings.Cut(key, "."); nested {
			if tree[group] == nil {
				tree[group] = make(map[string]any)
			}
			tree[group].(map[string]any)[name] = value
		} else {
			tree[key] = value
		}
	}
	if format == "json" {
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// In both others a string and a list may look as in JSON. What is in no group must come first in TOML.
	var plain, grouped strings.Builder
	line := func(b *strings.Builder, indent, name string, value any) {
		text, _ := json.Marshal(value)
		fmt.Fprintf(b, "%s%s%s%s\n", indent, name, map[string]string{"yaml": ": ", "toml": " = "}[format], text)
	}
	for name, value := range tree {
		group, nested := value.(map[string]any)
		if !nested {
			line(&plain, "", name, value)
			continue
		}
		fmt.Fprintf(&grouped, map[string]string{"yaml": "%s:\n", "toml": "[%s]\n"}[format], name)
		for name, value := range group {
			line(&grouped, "  ", name, value)
		}
	}
	return plain.String() + grouped.String()
}

func settingOf(t *testing.T, key string) setting {
	t.Helper()
	for _, s := range settings() {
		if s.key == key {
			return s
		}
	}
	t.Fatalf("there is no setting %s", key)
	return setting{}
}

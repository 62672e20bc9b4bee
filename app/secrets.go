package app

import (
	"fmt"
	"log/slog"

	"example.com/stock/app/credentials"
)

// fileSuffix makes the key of a secret the key of the file that contains it.
const fileSuffix = "_file"

// Secrets that are read again when their file changes. The others are read once, at the start.
func readAgain(key string) bool {
	switch key {
	case "admin_token", "redis.password", "mysql.dsn":
		return true
	}
	return false
}

// withFiles adds a setting for the file of each secret, behind it.
func (c *Config) withFiles(list []setting) (all []setting) {
	if c.secretFiles == nil {
		c.secretFiles = make(map[string]*string)
	}
	for _, s := range list {
		all = append(all, s)
		if s.secret {
			if c.secretFiles[s.key] == nil {
				c.secretFiles[s.key] = new(string)
			}
			all = append(all, setting{c.secretFiles[s.key], s.key + fileSuffix, "", false})
		}
	}
	return all
}

// file returns the file of a secret.
func (c *Config) file(key string) credentials.File {
	file := credentials.File{Setting: key + fileSuffix}
	if path := c.secretFiles[key]; path != nil {
		file.Path = *path
	}
	return file
}

// readSecrets sets the secrets that are in files.
func (c *Config) readSecrets(settings []setting) (bad []error) {
	for _, s := range settings {
		file := c.file(s.key)
		value, isText := s.field.(*string)
		if !isText || file.Path == "" {
			continue
		}
		if *value != "" && *value != s.value {
			bad = append(bad, wrong(s.key, "twice", "file", file.Setting))
			continue
		}
		read, err := credentials.Secret(file, credentials.Text, slog.New(slog.DiscardHandler))
		if err != nil {
			bad = append(bad, unusable(err))
			continue
		}
		*value = read()
	}
	return bad
}

// reread returns a function that returns what parse makes of a secret. If the secret is in a file, it is read again
// when the file changes.
func reread[T any](a *App, key, value string, parse func(text string) (T, error)) (func() T, error) {
	if file := a.cfg.file(key); file.Path != "" {
		read, err := credentials.Secret(file, parse, a.log)
		return read, unusable(err)
	}
	fixed, err := parse(value)
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return func() T { return fixed }, err
}

package app

import "example.com/stock/app/credentials"

// fileSuffix makes the key of a secret the key of the file that contains it.
const fileSuffix = "_file"

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
		secret, err := credentials.Secret(file)
		if err != nil {
			bad = append(bad, unusable(err))
			continue
		}
		*value = secret
	}
	return bad
}

package kubernetes

import (
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
)

// Known are the settings of the program: the variable of each, with its default.
type Known map[string]string

// secret reports whether the variable is that of a secret: a setting that can also be in a file.
func (k Known) secret(name string) bool {
	_, inFile := k[name+"_FILE"]
	return inFile
}

// Rules returns the rules that compare the manifests with the settings of the program.
func (k Known) Rules() []Rule {
	return []Rule{
		{"settings exist", k.exist},
		{"secrets are in files", k.inFiles},
	}
}

// variables calls do for each variable of each container, and each value of a ConfigMap.
func (s *Set) variables(do func(where, name, value string, fromSecret bool)) {
	for _, p := range s.pods() {
		for _, c := range p.spec.Containers {
			for _, e := range c.Env {
				secret := e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil
				do(p.name, e.Name, e.Value, secret)
			}
			for _, from := range c.EnvFrom {
				if from.SecretRef != nil {
					do(p.name, from.SecretRef.Name, "", true)
				}
			}
		}
	}
	for _, m := range s.ConfigMaps {
		for name, value := range m.Data {
			do("ConfigMap "+m.Name, name, value, false)
		}
	}
}

func (k Known) exist(s *Set, report func(string, ...any)) {
	s.variables(func(where, name, _ string, _ bool) {
		if _, known := k[name]; strings.HasPrefix(name, "STOCK_") && !known {
			report("%s: %s is no setting", where, name)
		}
	})
}

// inFiles: a variable is visible to whoever may read a Deployment, and in dumps of a process. This also holds for
// variables that come from a Secret. Names are those of the settings, and of the images of the stores.
func (k Known) inFiles(s *Set, report func(string, ...any)) {
	s.variables(func(where, name, value string, fromSecret bool) {
		words := strings.Split(name, "_")
		stores := slices.ContainsFunc([]string{"PASSWORD", "TOKEN", "SECRET", "DSN"}, func(word string) bool {
			return words[len(words)-1] == word
		})
		if fromSecret || k.secret(name) || stores || strings.Contains(value, "@tcp(") {
			report("%s: %s has a secret", where, name)
		}
	})
	s.instances(func(p pod, c *core.Container) {
		for _, name := range []string{"STOCK_MYSQL_DSN", "STOCK_ADMIN_TOKEN"} {
			if s.Env(c)[name+"_FILE"] == "" {
				report("%s: %s is not in a file", p.name, name)
			}
		}
	})
}

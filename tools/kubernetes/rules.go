package kubernetes

import (
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	security "k8s.io/pod-security-admission/api"
	standard "k8s.io/pod-security-admission/policy"
)

// A Rule finds what is wrong with a set of objects.
type Rule struct {
	Name  string
	check func(s *Set, report func(format string, args ...any))
}

// Check returns the findings of a rule.
func (r Rule) Check(s *Set) (findings []string) {
	r.check(s, func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) })
	return findings
}

// Rules returns all rules that need no program.
func Rules() []Rule {
	return []Rule{
		{"pod security standard restricted", restricted},
		{"read-only root", readOnlyRoot},
		{"no token", noToken},
		{"no service links", noServiceLinks},
		{"requests and limits", limits},
		{"probes", probes},
		{"images", images},
		{"updates lose no request", updates},
		{"drain", drain},
		{"memory fits the queue", memory},
		{"references", references},
		{"selectors", selectors},
		{"every pod has a network policy", policed},
		{"operators' port", operatorsPort},
		{"ingress", ingress},
		{"spread and budget", spread},
		{"autoscaler", autoscaler},
		{"connections to MySQL", connections},
		{"migration", migration},
	}
}

// restricted is the check that the API server makes in a namespace with the label "enforce: restricted".
func restricted(s *Set, report func(string, ...any)) {
	for _, n := range s.Namespaces {
		if n.Labels[security.EnforceLevelLabel] != string(security.LevelRestricted) {
			report("Namespace %s does not enforce it", n.Name)
		}
	}
	evaluator, err := standard.NewEvaluator(standard.DefaultChecks(), nil)
	if err != nil {
		report("%v", err)
		return
	}
	level := security.LevelVersion{Level: security.LevelRestricted, Version: security.LatestVersion()}
	for _, p := range s.pods() {
		result := standard.AggregateCheckResults(evaluator.EvaluatePod(level, p.meta, p.spec))
		if !result.Allowed {
			report("%s: %s", p.name, result.ForbiddenDetail())
		}
	}
}

func readOnlyRoot(s *Set, report func(string, ...any)) {
	for _, p := range s.pods() {
		// A user that is not root by name cannot be checked, so it must be a number.
		if c := p.spec.SecurityContext; c == nil || c.RunAsUser == nil || *c.RunAsUser == 0 ||
			p.ours() && *c.RunAsUser != 65532 {
			report("%s: runAsUser is not that of the image", p.name)
		}
		for _, c := range p.spec.Containers {
			if c.SecurityContext == nil || !is(c.SecurityContext.ReadOnlyRootFilesystem, true) {
				report("%s: the root of %s can be written", p.name, c.Name)
			}
		}
	}
}

func is(b *bool, want bool) bool { return b != nil && *b == want }

func noToken(s *Set, report func(string, ...any)) {
	for _, a := range s.Accounts {
		if !is(a.AutomountServiceAccountToken, false) {
			report("ServiceAccount %s mounts its token", a.Name)
		}
	}
	for _, p := range s.pods() {
		if !is(p.spec.AutomountServiceAccountToken, false) {
			report("%s mounts a token", p.name)
		}
	}
}

// noServiceLinks: Kubernetes would set STOCK_REDIS_PORT for a Service named stock-redis, and the program refuses that.
func noServiceLinks(s *Set, report func(string, ...any)) {
	for _, p := range s.pods() {
		if !is(p.spec.EnableServiceLinks, false) {
			report("%s has variables of Services", p.name)
		}
	}
}

func limits(s *Set, report func(string, ...any)) {
	for _, p := range s.pods() {
		for _, c := range p.spec.Containers {
			for _, name := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
				request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
				if request.IsZero() || limit.IsZero() || request.Cmp(limit) > 0 {
					report("%s: %s of %s: request %v, limit %v", p.name, name, c.Name, &request, &limit)
				}
			}
		}
		for _, v := range p.spec.Volumes {
			if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
				report("%s: volume %s may fill the node", p.name, v.Name)
			}
		}
	}
}

// probes: a pod must be able to start slowly, to be taken out of service, and to be restarted, for different reasons.
func probes(s *Set, report func(string, ...any)) {
	for _, p := range s.pods() {
		if !p.runs {
			continue
		}
		for _, c := range p.spec.Containers {
			for name, probe := range map[string]*core.Probe{
				"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe,
			} {
				want := "/livez"
				if name == "readinessProbe" {
					want = "/readyz"
				}
				switch {
				case probe == nil:
					report("%s: %s has no %s", p.name, c.Name, name)
				case !p.ours():
				case probe.HTTPGet == nil || probe.HTTPGet.Path != want || probe.HTTPGet.Port.String() != "http":
					report("%s: %s does not ask %s", p.name, name, want)
				case (probe.HTTPGet.Scheme == core.URISchemeHTTPS) != (s.Env(&c)["STOCK_TLS_CERT"] != ""):
					report("%s: %s and the listener do not agree about TLS", p.name, name)
				}
			}
			// An exec probe is a process every second, and the image has no shell.
			if l := c.Lifecycle; l != nil && p.ours() {
				report("%s: the program drains by itself, without hooks", p.name)
			}
		}
	}
}

func images(s *Set, report func(string, ...any)) {
	for _, p := range s.pods() {
		for _, c := range p.spec.Containers {
			_, digest, hasDigest := strings.Cut(c.Image, "@")
			name := c.Image[strings.LastIndex(c.Image, "/")+1:]
			_, tag, _ := strings.Cut(name, ":")
			if (tag == "" || tag == "latest") && !(hasDigest && strings.HasPrefix(digest, "sha256:")) {
				report("%s: image %s names no version", p.name, c.Image)
			}
		}
	}
}

// updates: a new pod is ready before an old one stops. A store of a demonstration has no second pod.
func updates(s *Set, report func(string, ...any)) {
	for _, d := range s.Deployments {
		if d.Labels["app.kubernetes.io/name"] != "stock" {
			if d.Spec.Strategy.Type != "Recreate" {
				report("Deployment %s would run two stores of one name", d.Name)
			}
			continue
		}
		zero := intstr.FromInt32(0)
		if u := d.Spec.Strategy.RollingUpdate; u == nil || u.MaxUnavailable == nil || *u.MaxUnavailable != zero ||
			u.MaxSurge == nil || *u.MaxSurge == zero {
			report("Deployment %s may stop an old pod before a new one is ready", d.Name)
		}
	}
}

// references: every volume, ConfigMap and Secret that a pod names is there, or is one that the user makes.
func references(s *Set, report func(string, ...any)) {
	known := map[string]bool{ // docs/kubernetes.md has the commands
		"Secret stock": true, "Secret stock-tls": true, "ConfigMap stock-ca": true,
	}
	for _, secret := range s.Secrets {
		known["Secret "+secret.Name] = true
	}
	for _, m := range s.ConfigMaps {
		known["ConfigMap "+m.Name] = true
	}
	need := func(p pod, what string) {
		if !known[what] {
			report("%s names %s, which nobody makes", p.name, what)
		}
	}
	for _, p := range s.pods() {
		volumes := make(map[string]core.Volume)
		for _, v := range p.spec.Volumes {
			volumes[v.Name] = v
			if v.Secret != nil {
				need(p, "Secret "+v.Secret.SecretName)
				if mode := v.Secret.DefaultMode; mode == nil || *mode&0o007 != 0 {
					report("%s: everybody may read volume %s", p.name, v.Name)
				}
			}
			if v.ConfigMap != nil {
				need(p, "ConfigMap "+v.ConfigMap.Name)
			}
		}
		for _, c := range p.spec.Containers {
			for _, from := range c.EnvFrom {
				if from.ConfigMapRef != nil {
					need(p, "ConfigMap "+from.ConfigMapRef.Name)
				}
			}
			for _, m := range c.VolumeMounts {
				v, there := volumes[m.Name]
				switch {
				case !there:
					report("%s mounts %s, which is no volume", p.name, m.Name)
				case v.Secret != nil && m.SubPath != "":
					report("%s: with subPath a changed %s does not reach the pod", p.name, m.Name)
				}
			}
			s.files(p, &c, volumes, report)
		}
	}
}

// files checks that each file that a variable names is in a volume of the container, and that the Secret has its key.
func (s *Set) files(p pod, c *core.Container, volumes map[string]core.Volume, report func(string, ...any)) {
	for name, path := range s.Env(c) {
		if !strings.HasPrefix(path, "/") {
			continue
		}
		dir, key := path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/")+1:]
		var found *core.Volume
		for _, m := range c.VolumeMounts {
			if m.MountPath == dir {
				v := volumes[m.Name]
				found = &v
			}
		}
		if found == nil {
			report("%s: %s=%s is in no volume", p.name, name, path)
			continue
		}
		if found.Secret == nil {
			continue
		}
		for _, secret := range s.Secrets {
			if secret.Name == found.Secret.SecretName && len(secret.Data[key]) == 0 {
				report("%s: Secret %s has no %s", p.name, secret.Name, key)
			}
		}
		chosen := len(found.Secret.Items) == 0
		for _, item := range found.Secret.Items {
			chosen = chosen || item.Path == key
		}
		if !chosen {
			report("%s: volume %s leaves %s out", p.name, found.Name, key)
		}
	}
}

package kubernetes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"example.com/stock/tools/kubernetes"
)

// A breakage changes overlay ha, and names the rule that must notice it and a part of its finding.
type breakage struct {
	rule, finding string
	do            func(s *kubernetes.Set)
}

func instance(s *kubernetes.Set) *apps.Deployment { return s.Deployments[0] }

func spec(s *kubernetes.Set) *core.PodSpec { return &instance(s).Spec.Template.Spec }

func container(s *kubernetes.Set) *core.Container { return &spec(s).Containers[0] }

// set sets a variable of the instances.
func set(s *kubernetes.Set, name, value string) {
	container(s).Env = append(container(s).Env, core.EnvVar{Name: name, Value: value})
}

func breakages() []breakage {
	yes, no := true, false
	return []breakage{
		{"pod security standard restricted", "does not enforce it", func(s *kubernetes.Set) {
			s.Namespaces[0].Labels = nil
		}},
		{"pod security standard restricted", "privileged", func(s *kubernetes.Set) {
			container(s).SecurityContext.Privileged = &yes
		}},
		{"pod security standard restricted", "allowPrivilegeEscalation", func(s *kubernetes.Set) {
			container(s).SecurityContext.AllowPrivilegeEscalation = nil
		}},
		{"pod security standard restricted", "unrestricted capabilities", func(s *kubernetes.Set) {
			container(s).SecurityContext.Capabilities = nil
		}},
		{"pod security standard restricted", "runAsNonRoot", func(s *kubernetes.Set) {
			spec(s).SecurityContext.RunAsNonRoot = nil
		}},
		{"pod security standard restricted", "seccompProfile", func(s *kubernetes.Set) {
			s.Jobs[0].Spec.Template.Spec.SecurityContext.SeccompProfile = nil
		}},
		{"pod security standard restricted", "hostPath", func(s *kubernetes.Set) {
			spec(s).Volumes[0].VolumeSource = core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/"}}
		}},
		{"read-only root", "can be written", func(s *kubernetes.Set) {
			container(s).SecurityContext.ReadOnlyRootFilesystem = &no
		}},
		{"read-only root", "runAsUser", func(s *kubernetes.Set) { spec(s).SecurityContext.RunAsUser = new(int64) }},
		{"no token", "Deployment stock mounts", func(s *kubernetes.Set) { spec(s).AutomountServiceAccountToken = nil }},
		{"no token", "ServiceAccount", func(s *kubernetes.Set) { s.Accounts[0].AutomountServiceAccountToken = &yes }},
		{"no service links", "Deployment stock", func(s *kubernetes.Set) { spec(s).EnableServiceLinks = nil }},
		{"requests and limits", "memory", func(s *kubernetes.Set) {
			delete(container(s).Resources.Limits, core.ResourceMemory)
		}},
		{"requests and limits", "fill the node", func(s *kubernetes.Set) {
			spec(s).Volumes[0].VolumeSource = core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}
		}},
		{"probes", "no startupProbe", func(s *kubernetes.Set) { container(s).StartupProbe = nil }},
		{"probes", "no readinessProbe", func(s *kubernetes.Set) { container(s).ReadinessProbe = nil }},
		{"probes", "does not ask /livez", func(s *kubernetes.Set) {
			container(s).LivenessProbe.HTTPGet.Path = "/readyz"
		}},
		{"probes", "about TLS", func(s *kubernetes.Set) { container(s).ReadinessProbe.HTTPGet.Scheme = "" }},
		{"probes", "without hooks", func(s *kubernetes.Set) { container(s).Lifecycle = &core.Lifecycle{} }},
		{"images", "names no version", func(s *kubernetes.Set) { container(s).Image = "registry:5000/stock:latest" }},
		{"images", "names no version", func(s *kubernetes.Set) { container(s).Image = "registry:5000/stock" }},
		{"updates lose no request", "before a new one", func(s *kubernetes.Set) {
			one := intstr.FromInt32(1)
			instance(s).Spec.Strategy.RollingUpdate.MaxUnavailable = &one
		}},
		{"updates lose no request", "before a new one", func(s *kubernetes.Set) {
			instance(s).Spec.Strategy.RollingUpdate = nil
		}},
		{"drain", "shorter than endpoints", func(s *kubernetes.Set) { set(s, "STOCK_DRAIN", "1s") }},
		{"drain", "cuts off", func(s *kubernetes.Set) { set(s, "STOCK_WAIT", "30s") }},
		{"drain", "terminationGracePeriodSeconds", func(s *kubernetes.Set) { set(s, "STOCK_DRAIN", "45s") }},
		{"drain", "terminationGracePeriodSeconds", func(s *kubernetes.Set) {
			spec(s).TerminationGracePeriodSeconds = nil
		}},
		{"memory fits the queue", "10000 waiting", func(s *kubernetes.Set) { set(s, "STOCK_LIMITS_WAITING", "10000") }},
		{"memory fits the queue", "GOMEMLIMIT", func(s *kubernetes.Set) { set(s, "GOMEMLIMIT", "512MiB") }},
		{"references", "is no volume", func(s *kubernetes.Set) { container(s).VolumeMounts[0].Name = "other" }},
		{"references", "nobody makes", func(s *kubernetes.Set) { spec(s).Volumes[0].Secret.SecretName = "other" }},
		{"references", "nobody makes", func(s *kubernetes.Set) { s.ConfigMaps[0].Name = "other" }},
		{"references", "everybody may read", func(s *kubernetes.Set) { spec(s).Volumes[0].Secret.DefaultMode = nil }},
		{"references", "subPath", func(s *kubernetes.Set) { container(s).VolumeMounts[0].SubPath = "tls.crt" }},
		{"references", "is in no volume", func(s *kubernetes.Set) {
			set(s, "STOCK_REDIS_TLS_CA", "/elsewhere/ca.crt")
		}},
		{"references", "leaves mysql-dsn out", func(s *kubernetes.Set) {
			for _, v := range s.Jobs[0].Spec.Template.Spec.Volumes {
				if v.Secret != nil {
					v.Secret.Items[0].Path = "other"
				}
			}
		}},
		{"references", "has no mysql-dsn", func(s *kubernetes.Set) {
			empty := &core.Secret{}
			empty.Name = "stock"
			s.Secrets = append(s.Secrets, empty)
		}},
		{"selectors", "Service stock selects no pod", func(s *kubernetes.Set) {
			s.Services[0].Spec.Selector = map[string]string{"app": "stock"}
		}},
		{"selectors", "Service stock selects Job", func(s *kubernetes.Set) {
			delete(s.Services[0].Spec.Selector, "app.kubernetes.io/component")
		}},
		{"selectors", "has no port web", func(s *kubernetes.Set) {
			s.Services[0].Spec.Ports[0].TargetPort = intstr.FromString("web")
		}},
		{"selectors", "has no port metrics", func(s *kubernetes.Set) {
			*s.Monitors[0].Spec.PodMetricsEndpoints[0].Port = "metrics"
		}},
		{"selectors", "topology spread", func(s *kubernetes.Set) {
			spec(s).TopologySpreadConstraints[0].LabelSelector.MatchLabels["app"] = "stock"
		}},
		{"every pod has a network policy", "limits Egress", func(s *kubernetes.Set) {
			for _, n := range s.Policies {
				n.Spec.PolicyTypes = []networking.PolicyType{networking.PolicyTypeIngress}
			}
		}},
		{"every pod has a network policy", "Job stock-migrate", func(s *kubernetes.Set) {
			for _, n := range s.Policies {
				if n.Name == "stock-migrate" {
					n.Spec.PodSelector.MatchLabels["app"] = "other"
				}
			}
		}},
		{"every pod has a network policy", "lets everybody in", func(s *kubernetes.Set) {
			policy(s, "stock").Spec.Ingress[0].From = nil
		}},
		{"every pod has a network policy", "connect anywhere", func(s *kubernetes.Set) {
			policy(s, "stock-mysql").Spec.Egress[0].To = nil
		}},
		{"operators' port", "listens for operators at 127.0.0.1:9090", func(s *kubernetes.Set) {
			delete(s.ConfigMaps[0].Data, "STOCK_ADMIN_ADDR")
		}},
		{"operators' port", "has the port of operators", func(s *kubernetes.Set) {
			s.Services[0].Spec.Ports[0].TargetPort = intstr.FromInt32(9090)
		}},
		{"operators' port", "others than Prometheus", func(s *kubernetes.Set) {
			policy(s, "stock").Spec.Ingress[0].Ports = nil
		}},
		{"operators' port", "others than Prometheus", func(s *kubernetes.Set) {
			policy(s, "stock").Spec.Ingress[1].From[0].PodSelector = nil
		}},
		{"operators' port", "Prometheus does not reach", func(s *kubernetes.Set) {
			policy(s, "stock").Spec.Ingress = policy(s, "stock").Spec.Ingress[:1]
		}},
		{"ingress", "repeats requests", func(s *kubernetes.Set) {
			annotate(s, "proxy-next-upstream", "error timeout non_idempotent")
		}},
		{"ingress", "proxy-read-timeout", func(s *kubernetes.Set) { annotate(s, "proxy-read-timeout", "30") }},
		{"ingress", "does not check the certificate", func(s *kubernetes.Set) {
			annotate(s, "proxy-ssl-verify", "off")
		}},
		{"ingress", "does not check the certificate", func(s *kubernetes.Set) { s.Ingresses[0].Spec.TLS = nil }},
		{"ingress", "shows /metrics", func(s *kubernetes.Set) {
			s.Ingresses[0].Spec.Rules[0].HTTP.Paths[0].Path = "/metrics"
		}},
		{"ingress", "leads nowhere", func(s *kubernetes.Set) {
			s.Ingresses[0].Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Name = "operators"
		}},
		{"spread and budget", "is not spread", func(s *kubernetes.Set) { spec(s).TopologySpreadConstraints = nil }},
		{"spread and budget", "one pod at a time", func(s *kubernetes.Set) { s.Budgets[0].Spec.MaxUnavailable = nil }},
		{"spread and budget", "has 0 budgets", func(s *kubernetes.Set) { s.Budgets = nil }},
		{"spread and budget", "has 2 budgets", func(s *kubernetes.Set) { s.Budgets = append(s.Budgets, s.Budgets[0]) }},
		{"autoscaler", "resets the number", func(s *kubernetes.Set) { instance(s).Spec.Replicas = new(int32) }},
		{"autoscaler", "has one instance", func(s *kubernetes.Set) { s.Scalers = nil }},
		{"autoscaler", "may leave one", func(s *kubernetes.Set) { s.Scalers[0].Spec.MinReplicas = nil }},
		{"autoscaler", "has no fallback", func(s *kubernetes.Set) {
			s.Scalers[0].Spec.Metrics = s.Scalers[0].Spec.Metrics[:1]
		}},
		{"autoscaler", "scales nothing", func(s *kubernetes.Set) { s.Scalers[0].Spec.ScaleTargetRef.Name = "other" }},
		{"connections to MySQL", "697 connections", func(s *kubernetes.Set) {
			delete(s.ConfigMaps[0].Data, "STOCK_MYSQL_LOCK_POOL_SIZE")
		}},
		{"migration", "0 Jobs", func(s *kubernetes.Set) {
			s.Jobs[0].Spec.Template.Spec.Containers[0].Args = []string{"migrate"}
		}},
		{"migration", "migrates by itself", func(s *kubernetes.Set) { set(s, "STOCK_MYSQL_MIGRATE", "true") }},
		{"settings exist", "STOCK_REDIS_PORT is no setting", func(s *kubernetes.Set) {
			set(s, "STOCK_REDIS_PORT", "1")
		}},
		{"settings exist", "STOCK_PROFIL is no setting", func(s *kubernetes.Set) {
			s.ConfigMaps[0].Data["STOCK_PROFIL"] = "orders"
		}},
		{"secrets are in files", "STOCK_REDIS_PASSWORD has a secret", func(s *kubernetes.Set) {
			s.ConfigMaps[0].Data["STOCK_REDIS_PASSWORD"] = "secret"
		}},
		{"secrets are in files", "STOCK_ADMIN_TOKEN has a secret", func(s *kubernetes.Set) {
			from := &core.EnvVarSource{SecretKeyRef: &core.SecretKeySelector{Key: "admin-token"}}
			container(s).Env = append(container(s).Env, core.EnvVar{Name: "STOCK_ADMIN_TOKEN", ValueFrom: from})
		}},
		{"secrets are in files", "stock has a secret", func(s *kubernetes.Set) {
			from := core.EnvFromSource{SecretRef: &core.SecretEnvSource{}}
			from.SecretRef.Name = "stock"
			container(s).EnvFrom = append(container(s).EnvFrom, from)
		}},
		{"secrets are in files", "MARIADB_PASSWORD has a secret", func(s *kubernetes.Set) {
			set(s, "MARIADB_PASSWORD", "secret")
		}},
		{"secrets are in files", "STOCK_MYSQL_DSN is not in a file", func(s *kubernetes.Set) {
			delete(s.ConfigMaps[0].Data, "STOCK_MYSQL_DSN_FILE")
		}},
	}
}

func policy(s *kubernetes.Set, name string) *networking.NetworkPolicy {
	for _, n := range s.Policies {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func annotate(s *kubernetes.Set, name, value string) {
	s.Ingresses[0].Annotations["nginx.ingress.kubernetes.io/"+name] = value
}

// Each rule notices what it is for.
func TestRulesNotice(t *testing.T) {
	all := rules(t)
	broken := make(map[string]bool)
	for _, b := range breakages() {
		s := build(t, "ha")
		b.do(s)
		broken[b.rule] = true
		var found []string
		known := false
		for _, rule := range all {
			if rule.Name == b.rule {
				known = true
				found = rule.Check(s)
			}
		}
		if !known {
			t.Fatalf("there is no rule %q", b.rule)
		}
		if !strings.Contains(strings.Join(found, "\n"), b.finding) {
			t.Errorf("%s: found %q, want %q", b.rule, found, b.finding)
		}
	}
	for _, rule := range all {
		if !broken[rule.Name] {
			t.Errorf("no broken manifest for the rule %q", rule.Name)
		}
	}
}

// A store of the demonstration that would run twice during an update is noticed, too.
func TestRulesNoticeInTheDemonstration(t *testing.T) {
	s := build(t, "demo")
	for _, d := range s.Deployments {
		d.Spec.Strategy.Type = apps.RollingUpdateDeploymentStrategyType
	}
	for _, rule := range kubernetes.Rules() {
		if rule.Name == "updates lose no request" && len(rule.Check(s)) != 3 {
			t.Errorf("found %q, want the three stores", rule.Check(s))
		}
	}
}

// An unknown field, one that is there twice, a value of the wrong type and an unknown kind are errors.
func TestDecodingIsStrict(t *testing.T) {
	for name, text := range map[string]string{
		"unknown field": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: [{port: 80}]}\n",
		"cannot unmarshal": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n" +
			"spec: {ports: [{port: eighty}]}\n",
		"no kind": "apiVersion: v1\nkind: Servce\nmetadata: {name: a}\n",
		`unknown field "spec.podMetricsEndpoints[0].prt"`: "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\n" +
			"metadata: {name: a}\nspec: {selector: {}, podMetricsEndpoints: [{prt: http}]}\n",
		"no rule is for": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n",
	} {
		dir := t.TempDir()
		for file, content := range map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": text} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		objects, err := kubernetes.Render(dir)
		if err == nil {
			_, err = kubernetes.Decode(objects)
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}

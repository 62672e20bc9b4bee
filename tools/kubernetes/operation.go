package kubernetes

import (
	"maps"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Defaults of settings that the rules need and the manifests may leave out. A test compares them with "stock config".
var defaults = map[string]string{
	"STOCK_DRAIN": "2s", "STOCK_STOP": "15s", "STOCK_WAIT": "10s", "STOCK_WORK": "2s", "STOCK_LIMITS_WAITING": "10000",
	"STOCK_MYSQL_POOL_SIZE": "24", "STOCK_MYSQL_LOCK_POOL_SIZE": "24", "STOCK_ADMIN_ADDR": "127.0.0.1:9090",
}

// settings returns what an instance gets, with the defaults.
func (s *Set) settings(c *core.Container) func(name string) string {
	env := s.Env(c)
	return func(name string) string {
		if value, set := env[name]; set {
			return value
		}
		return defaults[name]
	}
}

// instances calls do for each container that runs "stock serve".
func (s *Set) instances(do func(p pod, c *core.Container)) {
	for _, p := range s.pods() {
		for i := range p.spec.Containers {
			if p.ours() && p.runs {
				do(p, &p.spec.Containers[i])
			}
		}
	}
}

// drain: endpoints are removed while the instance still serves, requests finish, and only then comes SIGKILL.
func drain(s *Set, report func(string, ...any)) {
	s.instances(func(p pod, c *core.Container) {
		get := s.settings(c)
		span := func(name string) time.Duration {
			d, err := time.ParseDuration(get(name))
			if err != nil {
				report("%s: %s: %v", p.name, name, err)
			}
			return d
		}
		drain, stop, wait, work := span("STOCK_DRAIN"), span("STOCK_STOP"), span("STOCK_WAIT"), span("STOCK_WORK")
		if drain < 10*time.Second {
			report("%s: drain of %v is shorter than endpoints may take to be removed", p.name, drain)
		}
		if stop < wait+work {
			report("%s: stop of %v cuts off a request that waits %v and works %v", p.name, stop, wait, work)
		}
		// The critical sections that go on after stop, and the operators' requests (work and a second).
		least := drain + stop + work + work + time.Second
		var grace time.Duration
		if p.spec.TerminationGracePeriodSeconds != nil {
			grace = time.Duration(*p.spec.TerminationGracePeriodSeconds) * time.Second
		}
		if grace < least {
			report("%s: terminationGracePeriodSeconds of %v is less than %v", p.name, grace, least)
		}
	})
}

// memory: a full queue of waiting sales, some 50 kB each, must take less than half of the memory.
func memory(s *Set, report func(string, ...any)) {
	s.instances(func(p pod, c *core.Container) {
		waiting, err := strconv.ParseInt(s.settings(c)("STOCK_LIMITS_WAITING"), 10, 64)
		if err != nil {
			report("%s: %v", p.name, err)
		}
		limit := c.Resources.Limits.Memory().Value()
		if waiting*50_000 > limit/2 {
			report("%s: %d waiting sales do not fit into %d bytes", p.name, waiting, limit)
		}
		// Go's suffix MiB is Mi here.
		soft, err := resource.ParseQuantity(strings.TrimSuffix(s.Env(c)["GOMEMLIMIT"], "B"))
		if err != nil || soft.Value() >= limit || soft.Value() < limit/2 {
			report("%s: GOMEMLIMIT %q does not go with the limit of %d bytes", p.name, s.Env(c)["GOMEMLIMIT"], limit)
		}
	})
}

// selected returns the pods that a selector chooses.
func (s *Set) selected(selector *meta.LabelSelector) (list []pod) {
	chosen, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	for _, p := range s.pods() {
		if chosen.Matches(labels.Set(p.meta.Labels)) {
			list = append(list, p)
		}
	}
	return list
}

// port returns the number of the port with this name, or 0.
func (p pod) port(name string) int32 {
	for _, c := range p.spec.Containers {
		for _, port := range c.Ports {
			if port.Name == name {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// selectors: whoever selects pods finds some, with the ports that it names. The API server does not check that.
func selectors(s *Set, report func(string, ...any)) {
	find := func(who string, selector *meta.LabelSelector, runs bool, ports ...string) {
		pods := s.selected(selector)
		if len(pods) == 0 {
			report("%s selects no pod", who)
		}
		for _, p := range pods {
			if runs && !p.runs {
				report("%s selects %s", who, p.name)
			}
			for _, port := range ports {
				if p.port(port) == 0 {
					report("%s: %s has no port %s", who, p.name, port)
				}
			}
		}
	}
	for _, v := range s.Services {
		var ports []string
		for _, port := range v.Spec.Ports {
			ports = append(ports, port.TargetPort.String())
		}
		find("Service "+v.Name, &meta.LabelSelector{MatchLabels: v.Spec.Selector}, true, ports...)
	}
	for _, b := range s.Budgets {
		find("PodDisruptionBudget "+b.Name, b.Spec.Selector, true)
	}
	for _, m := range s.Monitors {
		for _, e := range m.Spec.PodMetricsEndpoints {
			find("PodMonitor "+m.Name, &m.Spec.Selector, true, *e.Port)
		}
	}
	for _, n := range s.Policies {
		find("NetworkPolicy "+n.Name, &n.Spec.PodSelector, false)
		for _, in := range n.Spec.Ingress {
			for _, port := range in.Ports {
				find("NetworkPolicy "+n.Name, &n.Spec.PodSelector, false, port.Port.String())
			}
		}
		for _, out := range n.Spec.Egress {
			for _, to := range out.To {
				if to.NamespaceSelector == nil && to.PodSelector != nil {
					find("NetworkPolicy "+n.Name, to.PodSelector, true)
				}
			}
		}
	}
	for _, d := range s.Deployments {
		for _, t := range d.Spec.Template.Spec.TopologySpreadConstraints {
			find("topology spread of "+d.Name, t.LabelSelector, true)
		}
	}
}

func policed(s *Set, report func(string, ...any)) {
	for _, p := range s.pods() {
		covered := make(map[networking.PolicyType]bool)
		for _, n := range s.Policies {
			for _, chosen := range s.selected(&n.Spec.PodSelector) {
				for _, t := range n.Spec.PolicyTypes {
					covered[t] = covered[t] || chosen.name == p.name
				}
			}
		}
		for _, t := range []networking.PolicyType{networking.PolicyTypeIngress, networking.PolicyTypeEgress} {
			if !covered[t] {
				report("%s: no policy limits %s", p.name, t)
			}
		}
	}
	for _, n := range s.Policies {
		for _, in := range n.Spec.Ingress {
			if len(in.From) == 0 {
				report("NetworkPolicy %s lets everybody in", n.Name)
			}
		}
		for _, out := range n.Spec.Egress {
			if len(out.To) == 0 || len(out.Ports) == 0 {
				report("NetworkPolicy %s lets pods connect anywhere", n.Name)
			}
		}
	}
}

// operatorsPort: Prometheus reaches it, and nobody else does.
func operatorsPort(s *Set, report func(string, ...any)) {
	s.instances(func(p pod, c *core.Container) {
		number := p.port("operators")
		if addr := s.settings(c)("STOCK_ADMIN_ADDR"); addr != ":"+strconv.Itoa(int(number)) {
			report("%s listens for operators at %s, and names port %d", p.name, addr, number)
		}
		for _, v := range s.Services {
			for _, port := range v.Spec.Ports {
				if port.TargetPort.String() == "operators" || port.TargetPort.IntVal == number {
					report("Service %s has the port of operators", v.Name)
				}
			}
		}
	})
	admitted := 0
	for _, n := range s.Policies {
		for _, chosen := range s.selected(&n.Spec.PodSelector) {
			for _, in := range n.Spec.Ingress {
				names, all := false, len(in.Ports) == 0
				for _, port := range in.Ports {
					names = names || port.Port.String() == "operators" || port.Port.IntVal == chosen.port("operators")
				}
				if chosen.port("operators") == 0 || !names && !all {
					continue
				}
				for _, from := range in.From {
					who := from.PodSelector
					if who == nil || who.MatchLabels["app.kubernetes.io/name"] != "prometheus" {
						report("NetworkPolicy %s opens the port of operators to others than Prometheus", n.Name)
					}
					admitted++
				}
			}
		}
	}
	if admitted == 0 {
		report("Prometheus does not reach the port of operators")
	}
}

// ingress: the rules of deploy/nginx.conf.
func ingress(s *Set, report func(string, ...any)) {
	const prefix = "nginx.ingress.kubernetes.io/"
	for _, i := range s.Ingresses {
		get := func(name string) string { return i.Annotations[prefix+name] }
		if get("proxy-next-upstream") != "off" {
			report("Ingress %s repeats requests", i.Name)
		}
		for name, want := range map[string]string{
			"proxy-connect-timeout": "1", "proxy-send-timeout": "10", "proxy-read-timeout": "75",
			"proxy-body-size": "80k", "proxy-request-buffering": "off",
		} {
			if got := get(name); got != want {
				report("Ingress %s: %s is %q, in deploy/nginx.conf %q", i.Name, name, got, want)
			}
		}
		s.instances(func(p pod, c *core.Container) {
			checked := get("backend-protocol") == "HTTPS" && get("proxy-ssl-verify") == "on" && len(i.Spec.TLS) > 0
			if s.Env(c)["STOCK_TLS_CERT"] != "" && !checked {
				report("Ingress %s does not check the certificate of %s, or has none itself", i.Name, p.name)
			}
		})
		for _, r := range i.Spec.Rules {
			for _, path := range r.HTTP.Paths {
				for _, hidden := range []string{"/metrics", "/v1/locks", "/v1/lab"} {
					if strings.HasPrefix(path.Path, hidden) {
						report("Ingress %s shows %s", i.Name, hidden)
					}
				}
				if b := path.Backend.Service; b == nil || !s.hasPort(b.Name, b.Port.Name) {
					report("Ingress %s: %s leads nowhere", i.Name, path.Path)
				}
			}
		}
	}
}

func (s *Set) hasPort(service, port string) bool {
	for _, v := range s.Services {
		for _, p := range v.Spec.Ports {
			if v.Name == service && p.Name == port {
				return true
			}
		}
	}
	return false
}

// spread: a node or a zone that fails, or is drained, does not take all instances.
func spread(s *Set, report func(string, ...any)) {
	for _, d := range s.Deployments {
		if d.Labels["app.kubernetes.io/name"] != "stock" {
			continue
		}
		if len(d.Spec.Template.Spec.TopologySpreadConstraints) == 0 {
			report("Deployment %s is not spread", d.Name)
		}
		budgets := 0
		for _, b := range s.Budgets {
			if len(s.selected(b.Spec.Selector)) > 0 {
				budgets++
			}
			if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() != 1 {
				report("PodDisruptionBudget %s does not take one pod at a time", b.Name)
			}
		}
		if budgets != 1 { // the API server refuses evictions of a pod with two
			report("Deployment %s has %d budgets", d.Name, budgets)
		}
	}
}

// autoscaler: one owner of the number of instances, and at least two of them.
func autoscaler(s *Set, report func(string, ...any)) {
	for _, d := range s.Deployments {
		if d.Labels["app.kubernetes.io/name"] != "stock" {
			continue
		}
		scaled := false
		for _, h := range s.Scalers {
			if h.Spec.ScaleTargetRef.Kind == "Deployment" && h.Spec.ScaleTargetRef.Name == d.Name {
				scaled = true
				if h.Spec.MinReplicas == nil || *h.Spec.MinReplicas < 2 {
					report("HorizontalPodAutoscaler %s may leave one instance", h.Name)
				}
				last := h.Spec.Metrics[len(h.Spec.Metrics)-1]
				if last.Resource == nil || last.Resource.Name != core.ResourceCPU {
					report("HorizontalPodAutoscaler %s has no fallback", h.Name)
				}
			} else {
				report("HorizontalPodAutoscaler %s scales nothing", h.Name)
			}
		}
		switch {
		case scaled && d.Spec.Replicas != nil:
			report("Deployment %s resets the number of the autoscaler", d.Name)
		case !scaled && (d.Spec.Replicas == nil || *d.Spec.Replicas < 2):
			report("Deployment %s has one instance", d.Name)
		}
	}
}

// maxConnections is what docker-compose.yml and overlay demo give to MariaDB.
const maxConnections = 500

// connections: an instance has two pools, five connections for probes and migrations, and the relay has eight.
func connections(s *Set, report func(string, ...any)) {
	for _, d := range s.Deployments {
		if d.Labels["app.kubernetes.io/name"] != "stock" {
			continue
		}
		most := int32(0)
		if d.Spec.Replicas != nil {
			most = *d.Spec.Replicas
		}
		for _, h := range s.Scalers {
			most = max(most, h.Spec.MaxReplicas)
		}
		get := s.settings(&d.Spec.Template.Spec.Containers[0])
		pool, _ := strconv.Atoi(get("STOCK_MYSQL_POOL_SIZE"))
		locks, _ := strconv.Atoi(get("STOCK_MYSQL_LOCK_POOL_SIZE"))
		if n := (int(most)+1)*(pool+locks+5) + 8; n > maxConnections {
			report("Deployment %s may open %d connections to MySQL, which has %d", d.Name, n, maxConnections)
		}
	}
}

// migration: a Job migrates, and the instances do not.
func migration(s *Set, report func(string, ...any)) {
	jobs := 0
	for _, j := range s.Jobs {
		for _, c := range j.Spec.Template.Spec.Containers {
			if len(c.Args) == 2 && c.Args[0] == "migrate" && c.Args[1] == "up" {
				jobs++
			}
		}
	}
	if jobs != 1 {
		report("%d Jobs run stock migrate up", jobs)
	}
	s.instances(func(p pod, c *core.Container) {
		if s.Env(c)["STOCK_MYSQL_MIGRATE"] != "false" {
			report("%s migrates by itself", p.name)
		}
	})
}

// Defaults returns the defaults with which the rules calculate.
func Defaults() map[string]string { return maps.Clone(defaults) }

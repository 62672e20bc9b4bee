// Package kubernetes checks the manifests of deploy/kubernetes without a cluster: it renders an overlay, decodes each
// object strictly, and applies the rules of this package.
package kubernetes

import (
	"fmt"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// A Set has the objects of one overlay, by kind.
type Set struct {
	Namespaces  []*core.Namespace
	Accounts    []*core.ServiceAccount
	ConfigMaps  []*core.ConfigMap
	Secrets     []*core.Secret
	Services    []*core.Service
	Deployments []*apps.Deployment
	Jobs        []*batch.Job
	Ingresses   []*networking.Ingress
	Policies    []*networking.NetworkPolicy
	Budgets     []*policy.PodDisruptionBudget
	Scalers     []*autoscaling.HorizontalPodAutoscaler
	Monitors    []*monitoring.PodMonitor
}

// Render makes the objects of an overlay as YAML, as kubectl kustomize does.
func Render(dir string) (objects [][]byte, err error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	for _, resource := range built.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		objects = append(objects, text)
	}
	return objects, nil
}

// Decode decodes objects strictly.
func Decode(objects [][]byte) (*Set, error) {
	s := new(Set)
	for _, text := range objects {
		if err := s.add(text); err != nil {
			return nil, fmt.Errorf("%w, in:\n%s", err, text)
		}
	}
	return s, nil
}

// add decodes an object. An unknown field and one that is there twice are errors, as with kubectl's strict validation.
func (s *Set) add(text []byte) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, apps.AddToScheme, batch.AddToScheme, networking.AddToScheme, policy.AddToScheme,
		autoscaling.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	options := json.SerializerOptions{Yaml: true, Strict: true}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, options)
	object, _, err := strict.Decode(text, nil, nil)
	if err != nil {
		return err
	}
	switch o := object.(type) {
	case *core.Namespace:
		s.Namespaces = append(s.Namespaces, o)
	case *core.ServiceAccount:
		s.Accounts = append(s.Accounts, o)
	case *core.ConfigMap:
		s.ConfigMaps = append(s.ConfigMaps, o)
	case *core.Secret:
		s.Secrets = append(s.Secrets, o)
	case *core.Service:
		s.Services = append(s.Services, o)
	case *apps.Deployment:
		s.Deployments = append(s.Deployments, o)
	case *batch.Job:
		s.Jobs = append(s.Jobs, o)
	case *networking.Ingress:
		s.Ingresses = append(s.Ingresses, o)
	case *networking.NetworkPolicy:
		s.Policies = append(s.Policies, o)
	case *policy.PodDisruptionBudget:
		s.Budgets = append(s.Budgets, o)
	case *autoscaling.HorizontalPodAutoscaler:
		s.Scalers = append(s.Scalers, o)
	case *monitoring.PodMonitor:
		s.Monitors = append(s.Monitors, o)
	default:
		return fmt.Errorf("no rule is for objects of type %T", object)
	}
	return nil
}

// A pod is the template of a Deployment or of a Job.
type pod struct {
	name string // kind and name of its owner
	meta *meta.ObjectMeta
	spec *core.PodSpec
	runs bool // until somebody stops it: of a Deployment
}

func (s *Set) pods() (list []pod) {
	for _, d := range s.Deployments {
		t := &d.Spec.Template
		list = append(list, pod{"Deployment " + d.Name, &t.ObjectMeta, &t.Spec, true})
	}
	for _, j := range s.Jobs {
		t := &j.Spec.Template
		list = append(list, pod{"Job " + j.Name, &t.ObjectMeta, &t.Spec, false})
	}
	return list
}

// ours reports whether the pod runs the program of this repository.
func (p pod) ours() bool { return p.meta.Labels["app.kubernetes.io/name"] == "stock" }

// Env returns the variables of a container, with those of the ConfigMaps that it takes as a whole.
func (s *Set) Env(c *core.Container) map[string]string {
	env := make(map[string]string)
	for _, from := range c.EnvFrom {
		for _, m := range s.ConfigMaps {
			if from.ConfigMapRef != nil && from.ConfigMapRef.Name == m.Name {
				for name, value := range m.Data {
					env[name] = value
				}
			}
		}
	}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	return env
}

// Package manifests checks the Kubernetes manifests of the order service.
package manifests

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The overlay can be built, and Kubernetes knows every field of what it makes.
func TestManifests(t *testing.T) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), "../../orders/deploy/kubernetes/overlay")
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	for _, r := range all.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := strict.Decode(text, nil, nil); err != nil {
			t.Errorf("%s %s: %v", r.GetKind(), r.GetName(), err)
		}
	}
	if len(all.Resources()) < 9 {
		t.Errorf("%d resources", len(all.Resources()))
	}
}

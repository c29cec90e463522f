package wakeups

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
)

func namespaceMeta(name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version},
	}
}

// An object is watched while a BundleDeployment waits for it. Changes of the object wake the BundleDeployment.
func TestAwaited(t *testing.T) {
	client := deploytest.NewMetadataClient(t, namespaceMeta("web", "1"))
	woken := make(chan []string, 100)
	a := NewAwaited(client, func(users []string) { slices.Sort(users); woken <- users })
	namespaces, ok := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).(metadatafake.MetadataClient)
	if !ok {
		t.Fatal("the fake client cannot update")
	}
	web, secret := outcome.CoreObject("namespaces", "", "web"), outcome.CoreObject("secrets", "web", "pull")
	a.Put("x", &web)
	if got := deploytest.Receive(t, woken); !slices.Equal(got, []string{"x"}) {
		t.Errorf("the existing object wakes %v", got)
	}
	a.Put("x", &web)
	a.Put("y", &web)
	if _, err := namespaces.UpdateFake(namespaceMeta("web", "2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := deploytest.Receive(t, woken); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("a change wakes %v", got)
	}
	a.Put("x", &secret)
	if _, err := namespaces.UpdateFake(namespaceMeta("web", "3"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := deploytest.Receive(t, woken); !slices.Equal(got, []string{"y"}) {
		t.Errorf("who waits for something else is woken: %v", got)
	}
	pulls, _ := client.Resource(deploytest.Secrets()).Namespace("web").(metadatafake.MetadataClient)
	created := deploytest.MetadataOf("Secret", "pull", "1", "")
	if _, err := pulls.CreateFake(created, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := deploytest.Receive(t, woken); !slices.Equal(got, []string{"x"}) {
		t.Errorf("what comes wakes %v", got)
	}
	a.Put("x", nil)
	a.Put("y", nil)
	a.Put("z", nil)
	if len(a.objects) != 0 || len(a.Waits) != 0 {
		t.Errorf("watched still: %v, for %v", a.objects, a.Waits)
	}
	a.Put("x", &web)
	a.Stop()
	a.Put("x", &secret)
	if len(a.objects) != 0 {
		t.Errorf("watched after the end: %v", a.objects)
	}
}

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
func TestAwaitedObjects_AreWatchedAndWake(t *testing.T) {
	client := deploytest.NewMetadataClient(t, namespaceMeta("web", "1"))
	woken := make(chan []string, 100)
	a := New(client, func(users []string) { slices.Sort(users); woken <- users })
	namespaces, ok := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).(metadatafake.MetadataClient)
	if !ok {
		t.Fatal("the fake client cannot update")
	}
	web, secret := outcome.CoreObject("namespaces", "", "web"), outcome.CoreObject("secrets", "web", "pull")
	a.WaitForObject("x", &web)
	if got := deploytest.Receive(t, woken); !slices.Equal(got, []string{"x"}) {
		t.Errorf("the existing object wakes %v", got)
	}
	a.WaitForObject("x", &web)
	a.WaitForObject("y", &web)
	if got := deploytest.Receive(t, woken); !slices.Equal(got, []string{"y"}) {
		t.Errorf("the existing object wakes %v when y joins its watch", got)
	}
	a.WaitForObject("y", &web) // the attempt failed again: only a change of the object wakes y now
	if _, err := namespaces.UpdateFake(namespaceMeta("web", "2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := deploytest.Receive(t, woken); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("a change wakes %v", got)
	}
	a.WaitForObject("x", &secret)
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
	a.WaitForObject("x", nil)
	a.WaitForObject("y", nil)
	a.Forget("z")
	if len(a.objects) != 0 || len(a.watches) != 0 || len(a.waiting) != 0 {
		t.Errorf("watched still: %v, for %v", a.watches, a.objects)
	}
	a.WaitForObject("x", &web)
	a.Stop()
	a.WaitForObject("x", &secret)
	if len(a.objects) != 0 {
		t.Errorf("watched after the end: %v", a.objects)
	}
}

func TestListeners_AreWokenByTheirTopics(t *testing.T) {
	w := New(nil, nil)
	one, other := Bundle("a"), Set("b")
	w.Publish(one) // there is no listener
	heardA, stopA := w.Listen(one, other)
	heardB, stopB := w.Listen(other)
	has := func(heard <-chan struct{}) bool {
		select {
		case <-heard:
			return true
		default:
			return false
		}
	}
	w.Publish(one)
	w.Publish(one)
	if !has(heardA) || has(heardA) || has(heardB) {
		t.Error("two events must wake the listeners of their topic once")
	}
	w.Publish(other)
	if !has(heardA) || !has(heardB) {
		t.Error("an event must wake all listeners of its topic")
	}
	stopA()
	stopA()
	w.Publish(other)
	if has(heardA) || !has(heardB) {
		t.Error("a stopped listener must not be woken")
	}
	stopB()
	if len(w.listeners) != 0 {
		t.Errorf("left: %v", w.listeners)
	}
}

func TestWaitingBundleDeployments_AreEnqueuedByTheirTopics(t *testing.T) {
	var woken []string
	w := New(nil, func(names []string) { woken = append(woken, names...) })
	w.Wait("b", States(), true)
	w.Wait("a", States(), true)
	w.Wait("c", CRDs(), true)
	w.Publish(States())
	if !slices.Equal(woken, []string{"a", "b"}) {
		t.Errorf("enqueued %v", woken)
	}
	w.Wait("a", States(), false)
	w.Forget("b")
	w.Publish(States())
	w.Publish(CRDs())
	if !slices.Equal(woken, []string{"a", "b", "c"}) {
		t.Errorf("enqueued %v", woken)
	}
}

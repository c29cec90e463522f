package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// named is an account of a version that names its clusters in annotation "for".
func named(version, clusters string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", ResourceVersion: version, Annotations: map[string]string{"for": clusters},
	}}
}

func TestWatch(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	informer := cache.NewSharedIndexInformer(source, &corev1.ServiceAccount{}, 0, cache.Indexers{})
	told := make(chan types.NamespacedName, 10)
	resolve := func(a *corev1.ServiceAccount) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: "ws", Name: a.Annotations["for"]}}
	}
	if err := Watch(informer, resolve, func(key types.NamespacedName) { told <- key }); err != nil {
		t.Fatal(err)
	}
	source.Add(named("", "c1"))
	go informer.Run(t.Context().Done())
	expectTold(t, told, "c1")

	source.Modify(named("", "c2"))
	expectTold(t, told, "c1", "c2") // whoever lost it hears of it too
	source.Modify(named("", "c2"))
	expectTold(t, told, "c2") // once, though old and new name it
	source.Delete(named("", "c2"))
	expectTold(t, told, "c2")
}

func TestWatchNew(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	informer := cache.NewSharedIndexInformer(source, &corev1.ServiceAccount{}, 0, cache.Indexers{})
	told := make(chan types.NamespacedName, 10)
	resolve := func(a *corev1.ServiceAccount) (keys []types.NamespacedName) {
		for _, name := range strings.Fields(a.Annotations["for"]) {
			keys = append(keys, types.NamespacedName{Namespace: "ws", Name: name})
		}
		return keys
	}
	if err := WatchNew(informer, resolve, func(key types.NamespacedName) { told <- key }); err != nil {
		t.Fatal(err)
	}
	source.Add(named("", "c1 c2 c1"))
	go informer.Run(t.Context().Done())
	expectTold(t, told, "c1", "c2") // each once

	source.Modify(named("", "c2 c3")) // c1 has left, c2 has stayed
	expectTold(t, told, "c3")
	source.Delete(named("", "c2 c3"))
	source.Add(named("", "c4"))
	expectTold(t, told, "c4")
}

func expectTold(t *testing.T, told <-chan types.NamespacedName, names ...string) {
	t.Helper()
	for _, name := range names {
		select {
		case got := <-told:
			if got != (types.NamespacedName{Namespace: "ws", Name: name}) {
				t.Fatalf("told of %s, want %s", got, name)
			}
		case <-time.After(time.Minute):
			t.Fatalf("not told of %s", name)
		}
	}
	select {
	case more := <-told:
		t.Fatalf("also told of %s", more)
	default:
	}
}

func TestSameVersion(t *testing.T) {
	tests := map[string]struct {
		old, current Object
		want         bool
	}{
		"a resync repeats a version":      {named("1", ""), named("1", ""), true},
		"a change has a new version":      {named("1", ""), named("2", ""), false},
		"without versions all may differ": {named("", ""), named("", ""), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := sameVersion(test.old, test.current); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestSetWatch_EnqueuesOwners(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	informer := cache.NewSharedIndexInformer(source, &corev1.ServiceAccount{}, 0, cache.Indexers{})
	s := newServer()
	client := newClient(s, corev1.SchemeGroupVersion.WithKind("ServiceAccount"), &corev1.ServiceAccount{})
	client.informer = informer
	set := NewSet("mine", KindOf(client))
	told := make(chan types.NamespacedName, 10)
	if err := set.Watch(func(key types.NamespacedName) { told <- key }); err != nil {
		t.Fatal(err)
	}
	source.Add(child("theirs", "not-told"))
	source.Add(child("mine", "t1"))
	go informer.Run(t.Context().Done())
	expectTold(t, told, "t1")
}

func child(set, owner string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: owner, Annotations: map[string]string{
		fleet.AnnotationSetID: set, fleet.AnnotationSetOwnerNamespace: "ws", fleet.AnnotationSetOwnerName: owner,
	}}}
}

type queue struct{ woken []string }

func (q *queue) EnqueueAfter(namespace, name string, after time.Duration) {
	q.woken = append(q.woken, namespace+"/"+name+" "+after.String())
}

type clusterQueue struct{ woken []string }

func (q *clusterQueue) EnqueueAfter(name string, after time.Duration) {
	q.woken = append(q.woken, name+" "+after.String())
}

func TestNudge_EnqueuesWithoutDelay(t *testing.T) {
	q, c := &queue{}, &clusterQueue{}
	Enqueue(q)(types.NamespacedName{Namespace: "n", Name: "a"})
	EnqueueCluster(c)(types.NamespacedName{Namespace: "ignored", Name: "b"})
	if diff := cmp.Diff([]string{"n/a 0s", "b 0s"}, append(q.woken, c.woken...)); diff != "" {
		t.Error(diff)
	}
}

func TestOptional(t *testing.T) {
	found := &corev1.Secret{}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "s")
	if got, err := Optional(found, nil); got != found || err != nil {
		t.Errorf("found: got %v, %v", got, err)
	}
	if got, err := Optional(found, missing); got != nil || err != nil {
		t.Errorf("missing: got %v, %v; want neither", got, err)
	}
	if _, err := Optional(found, errors.New("refused")); err == nil {
		t.Error("another error was lost")
	}
}

func TestKeyOf(t *testing.T) {
	for key, want := range map[string]types.NamespacedName{
		"a/b": {Namespace: "a", Name: "b"},
		"b":   {Name: "b"},
		"":    {},
	} {
		if got := ParseKey(key); got != want {
			t.Errorf("ParseKey(%q) = %v", key, got)
		}
	}
}

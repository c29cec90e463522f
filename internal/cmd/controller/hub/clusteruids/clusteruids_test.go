package clusteruids_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/clusteruids"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

var errServer = errors.New("etcd is gone")

const system = types.UID("system-1")

func cluster(workspace, name string) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name, UID: types.UID("uid-of-" + name)}}
}

func namespaceOf(c *fleet.Cluster, modifiers ...func(*corev1.Namespace)) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: names.ClusterNamespace(c.Namespace, c.Name), UID: "n", Labels: map[string]string{fleet.LabelManaged: "true"},
		Annotations: map[string]string{fleet.AnnotationCluster: c.Name, fleet.AnnotationClusterNamespace: c.Namespace},
	}}
	for _, modify := range modifiers {
		modify(namespace)
	}
	return namespace
}

func recorded(n *corev1.Namespace) { n.Annotations[annotation.SystemUID] = string(system) }

func holders(t *testing.T, of *clusteruids.Identities) (found []string) {
	t.Helper()
	clusters, err := of.Holders(system)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		found = append(found, c.Namespace+"/"+c.Name)
	}
	return found
}

func TestHolders_CountsOnlyWhatTheHubRecorded(t *testing.T) {
	c := cluster("a", "east")
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		gone      bool
		want      bool
	}{
		"recorded":                               {namespace: namespaceOf(c, recorded), want: true},
		"not recorded":                           {namespace: namespaceOf(c)},
		"another UID":                            {namespace: namespaceOf(c, func(n *corev1.Namespace) { n.Annotations[annotation.SystemUID] = "system-2" })},
		"a namespace without a mark":             {namespace: namespaceOf(c, recorded, func(n *corev1.Namespace) { n.Labels = nil })},
		"a namespace of another name":            {namespace: namespaceOf(c, recorded, func(n *corev1.Namespace) { n.Name = "mine" })},
		"a namespace that names another Cluster": {namespace: namespaceOf(c, recorded, func(n *corev1.Namespace) { n.Annotations[fleet.AnnotationCluster] = "west" })},
		"a namespace that is being deleted":      {namespace: namespaceOf(c, recorded, func(n *corev1.Namespace) { n.DeletionTimestamp = &metav1.Time{} })},
		"a namespace of a deleted Cluster":       {namespace: namespaceOf(c, recorded), gone: true},
		"annotation on the Cluster instead":      {namespace: namespaceOf(c)},
	} {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			c := cluster("a", "east")
			c.Annotations = map[string]string{annotation.SystemUID: string(system)} // of a user
			hub.Put(test.namespace)
			if !test.gone {
				hub.Put(c)
			}
			if found := holders(t, hub.App.Identities); (len(found) == 1) != test.want {
				t.Errorf("holders %v", found)
			}
		})
	}
}

func TestPersist(t *testing.T) {
	c := cluster("a", "east")
	hub := hubtest.New(t)
	of := hub.App.Identities
	persist := func(want ...string) {
		t.Helper()
		if err := of.Persist(c); err != nil {
			t.Fatal(err)
		}
		hubtest.ExpectRequests(t, hub, want...)
		hub.Sync()
	}
	hub.Put(c)
	persist()
	of.Note(c, system)
	persist() // the cache has no namespace yet
	if found := holders(t, of); !slices.Equal(found, []string{"a/east"}) {
		t.Errorf("holders before it is recorded: %v", found)
	}
	hub.Put(namespaceOf(c))
	patch := "patch Namespace " + names.ClusterNamespace("a", "east")
	hub.Fail(patch, errServer)
	if err := of.Persist(c); !errors.Is(err, errServer) {
		t.Errorf("error %v", err)
	}
	hub.Requests()
	hub.Fail(patch, nil)
	persist(patch)
	persist()
	of.Forget(types.NamespacedName{Namespace: "a", Name: "east"})
	if uid, err := of.Of(c); uid != system || err != nil || len(holders(t, of)) != 1 {
		t.Errorf("UID %s, error %v", uid, err)
	}
	of.Note(c, "") // the kubeconfig leads to a cluster that does not tell
	persist(patch)
	if uid, err := of.Of(c); uid != "" || err != nil {
		t.Errorf("UID %s, error %v", uid, err)
	}

	of.Note(c, system)
	another := c.DeepCopy()
	another.UID = "of-another"
	c = another
	persist() // what was noted of an earlier one of the name
}

func TestClaim_GivesAUIDToOneCluster(t *testing.T) {
	hub := hubtest.New(t)
	of := hub.App.Identities
	var all []*fleet.Cluster
	for _, name := range strings.Split("abcdefghijklmnopqrst", "") {
		all = append(all, cluster("a", name))
		hub.Put(all[len(all)-1])
	}
	var claiming sync.WaitGroup
	got := make(chan *fleet.Cluster, len(all))
	for _, c := range all {
		claiming.Go(func() {
			if other, err := of.Claim(c, system); other == nil && err == nil {
				got <- c
			}
		})
	}
	claiming.Wait()
	if len(got) != 1 {
		t.Fatalf("%d Clusters have the UID", len(got))
	}
	winner := <-got
	if other, err := of.Claim(winner, system); other != nil || err != nil {
		t.Errorf("claimed again: %v, %v", other, err)
	}
	hub.Remove(winner)
	of.Forget(types.NamespacedName{Namespace: winner.Namespace, Name: winner.Name})
	hub.Put(cluster("a", "later"))
	if other, err := of.Claim(cluster("a", "later"), system); other != nil || err != nil {
		t.Errorf("after the end of the first: %v, %v", other, err)
	}
	if other, err := of.Claim(cluster("a", "one"), ""); other != nil || err != nil {
		t.Errorf("without a UID: %v, %v", other, err)
	}
	if other, err := of.Claim(cluster("a", "two"), ""); other != nil || err != nil {
		t.Errorf("two without a UID: %v, %v", other, err)
	}
}

func TestKnown_CountsAttempts(t *testing.T) {
	hub := hubtest.New(t)
	of, c := hub.App.Identities, cluster("a", "east")
	expect := func(what string, want bool, uid types.UID) {
		t.Helper()
		known, err := of.Known(c)
		got, ofErr := of.Of(c)
		if known != want || got != uid || errors.Join(err, ofErr) != nil {
			t.Errorf("%s: known %t, UID %q", what, known, got)
		}
	}
	hub.Put(c)
	expect("at first", false, "")
	of.NoteFirst(c, "")
	expect("tried", true, "")
	of.Note(c, system)
	of.NoteFirst(c, "")
	expect("the import's result stays", true, system)
	of.Forget(types.NamespacedName{Namespace: "a", Name: "east"})
	expect("forgotten", false, "")
	hub.Put(namespaceOf(c, recorded))
	expect("recorded", true, system)
}

// reader is another cluster.
type reader struct {
	uid types.UID
	err error
}

func (r reader) NamespaceUID(context.Context, string) (types.UID, error) { return r.uid, r.err }

func TestRead(t *testing.T) {
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", corev1.Resource("namespaces"), "kube-system", "404 page not found", 0, true)
	for name, test := range map[string]struct {
		cluster reader
		want    types.UID
		err     error
	}{
		"a cluster that answers":           {cluster: reader{uid: system}, want: system},
		"a cluster without that namespace": {cluster: reader{err: apierrors.NewNotFound(corev1.Resource("namespaces"), "kube-system")}},
		"a proxy without a route to it":    {cluster: reader{err: page}, err: page},
		"a cluster that fails":             {cluster: reader{err: errServer}, err: errServer},
		"an invalid UID":                   {cluster: reader{uid: types.UID(strings.Repeat("x", 1000))}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := clusteruids.Read(t.Context(), test.cluster); got != test.want || !errors.Is(err, test.err) {
				t.Errorf("UID %q, error %v", got, err)
			}
		})
	}
}

package deploy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// storedRelease is the Secret of a release that a bundle made, and its metadata.
func storedRelease(t *testing.T, bundle string) (corev1.Secret, *metav1.PartialObjectMetadata) {
	t.Helper()
	text, err := encodeRelease(&release.Release{
		Name: bundle, Namespace: "web", Version: 1, Info: &release.Info{Status: release.StatusDeployed},
		Chart: &chart.Chart{Metadata: &chart.Metadata{Annotations: map[string]string{
			fleet.AnnotationBundleID: bundle, fleet.AnnotationAgentNamespace: "agents",
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	found := metadataOf("Secret", secretName(bundle, 1), "1", "")
	found.Labels = map[string]string{labelOwner: ownerHelm, labelName: bundle, labelVersion: "1"}
	return corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: found.ObjectMeta,
		Type: releaseSecretType, Data: map[string][]byte{releaseDataKey: text},
	}, found
}

// A release that cannot be read just now keeps no other from being found, and is found in the next round.
func TestAReleaseThatCannotBeReadHidesNoOther(t *testing.T) {
	secrets := map[string]corev1.Secret{}
	var listed []runtime.Object
	for _, name := range []string{"a", "b", "c"} {
		secret, found := storedRelease(t, name)
		secrets[secret.Name], listed = secret, append(listed, found)
	}
	unreadable := "b"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if name == secretName(unreadable, 1) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(secrets[name]); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	onHub, err := newHub(config, "cluster-ns")
	if err != nil {
		t.Fatal(err)
	}
	d := &deployer{
		Options: Options{AgentNamespace: "agents", Clock: time.Now}, hub: onHub, metadata: newMetadataClient(t, listed...), inventory: newInventory(),
		beginning: newBeginning(),
		agent:     &identity{clientset: kubernetes.NewForConfigOrDie(config)},
		queue:     workqueue.NewTypedRateLimitingQueue(newBackoff(func() float64 { return 0 })),
	}
	defer d.queue.ShutDown()
	queued := func() (names []string) {
		for d.queue.Len() > 0 {
			name, _ := d.queue.Get()
			d.queue.Done(name)
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	if err := d.sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "web/b") {
		t.Errorf("the round ended with %v", err)
	}
	if diff := cmp.Diff([]string{"a", "c"}, queued()); diff != "" {
		t.Errorf("looked at (-want +got):\n%s", diff)
	}
	unreadable = ""
	if err := d.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, queued()); diff != "" {
		t.Errorf("looked at then (-want +got):\n%s", diff)
	}
}

package release

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

func TestRevisionSecrets_NewestIsRecorded(t *testing.T) {
	secret := func(name, release, version, owner string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, ResourceVersion: "r" + version,
			Labels: map[string]string{"name": release, "version": version, "owner": owner}}}
	}
	newest := map[placement.Release]RevisionSecret{}
	for _, s := range []*metav1.PartialObjectMetadata{
		secret("a9", "a", "9", "helm"), secret("a10", "a", "10", "helm"), secret("a2", "a", "2", "helm"),
		secret("b1", "b", "1", "helm"), secret("no", "c", "1", "somebody"), secret("no", "", "1", "helm"), secret("no", "d", "x", "helm"), secret("no", "e", "0", "helm"),
	} {
		note(newest, s)
	}
	want := map[placement.Release]RevisionSecret{
		{Namespace: "web", Name: "a"}: {secret: "a10", ResourceVersion: "r10", number: 10}, {Namespace: "web", Name: "b"}: {secret: "b1", ResourceVersion: "r1", number: 1},
	}
	if diff := cmp.Diff(want, newest, cmp.AllowUnexported(RevisionSecret{})); diff != "" {
		t.Error(diff)
	}
}

func TestIsBeingUninstalled_UntilTheHistoryIsDeleted(t *testing.T) {
	i := newInstalled(t)
	if _, err := i.install("one", "a"); err != nil {
		t.Fatal(err)
	}
	reader := NewReader(i.Agent, nil, "agents", nil, deploytest.Noon, nil)
	for status, want := range map[release.Status]bool{
		release.StatusDeployed: false, release.StatusFailed: false, release.StatusUninstalling: true, release.StatusUninstalled: true,
	} {
		found := RevisionSecret{secret: SecretName("hello", 1), status: status.String(), number: 1}
		if got := reader.IsBeingUninstalled(t.Context(), i.key(), found); got != want {
			t.Errorf("%s: got %t", status, got)
		}
	}
}

func TestObjects_OfForgedOrUnreadableRevision_AreNotFound(t *testing.T) {
	key := placement.Release{Namespace: "web", Name: "hello"}
	tests := map[string]struct {
		data    func(sealed []byte) []byte
		missing bool
	}{
		"as stored":  {data: func(sealed []byte) []byte { return sealed }},
		"unreadable": {data: func([]byte) []byte { return []byte("x") }, missing: true},
		"changed by another writer": {missing: true, data: func([]byte) []byte {
			forged := stored(1, release.StatusDeployed)
			forged.Manifest = "# another"
			text, err := Encode(forged)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := Encode(stored(1, release.StatusDeployed))
			if err != nil {
				t.Fatal(err)
			}
			sealing := NewSeal(fake.NewClientset().CoreV1().Secrets("agents"), func(placement.Release) int { return 1 })
			secret := corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Data: map[string][]byte{releaseDataKey: text}}
			secret.Name, secret.Namespace, secret.CreationTimestamp = SecretName(key.Name, 1), key.Namespace, metav1.NewTime(deploytest.Noon())
			if err := sealing.put(t.Context(), &secret); err != nil {
				t.Fatal(err)
			}
			secret.Data[releaseDataKey] = test.data(text)
			server := httptest.NewServer(cluster{secret: secret})
			defer server.Close()
			agent, err := access.NewAgent(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, deploytest.Noon)
			if err != nil {
				t.Fatal(err)
			}
			_, err = NewReader(agent, nil, "agents", sealing, deploytest.Noon, nil).Objects(t.Context(), key.At(1))
			if err != nil && !test.missing || test.missing && !apierrors.IsNotFound(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

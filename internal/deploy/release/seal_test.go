package release

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestSeal(t *testing.T) {
	made := metav1.NewTime(deploytest.Noon())
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: names.ReleaseKey, Namespace: "agents", CreationTimestamp: made},
		Data:       map[string][]byte{sealKey: []byte("0123456789abcdef0123456789abcdef")},
	}
	before, after := metav1.NewTime(deploytest.Noon().Add(-time.Second)), made
	tests := map[string]struct {
		noKey  bool
		number int
		change func(*corev1.Secret)
		want   origin
	}{
		"unchanged: counts as the agent's":                                          {change: func(*corev1.Secret) {}, want: originAgent},
		"labels changed: counts as the agent's":                                     {change: func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }, want: originAgent},
		"data changed: counts as another writer's":                                  {change: func(s *corev1.Secret) { s.Data[releaseDataKey] = []byte("x") }, want: originOther},
		"name changed: counts as another writer's":                                  {change: func(s *corev1.Secret) { s.Name = "y" }, want: originOther},
		"namespace changed: counts as another writer's":                             {change: func(s *corev1.Secret) { s.Namespace = "y" }, want: originOther},
		"no seal, newer than the key, named by the hub: counts as another writer's": {number: 3, change: func(s *corev1.Secret) { s.Annotations = nil }, want: originOther},
		"no seal, older than the key, named by the hub: counts as the agent's":      {number: 3, change: older(before), want: originAgent},
		"no seal, older than the key, before the named one: counts as the agent's":  {number: 2, change: older(before), want: originAgent},
		"no seal, older than the key, after the named one: counts as older":         {number: 4, change: older(before), want: originOlder},
		"no key, named by the hub: counts as the agent's":                           {noKey: true, number: 3, change: func(*corev1.Secret) {}, want: originAgent},
		"no key, not named: counts as older":                                        {noKey: true, number: 4, change: func(*corev1.Secret) {}, want: originOlder},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sealing := &Seal{secrets: fake.NewClientset(key.DeepCopy()).CoreV1().Secrets("agents"), named: func(placement.Release) int { return 3 }}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", CreationTimestamp: after}, Data: map[string][]byte{releaseDataKey: []byte("release")},
			}
			if err := sealing.put(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			test.change(secret)
			if test.noKey {
				sealing = &Seal{secrets: fake.NewClientset().CoreV1().Secrets("agents"), named: sealing.named}
			}
			got, err := sealing.origin(t.Context(), placement.Release{Namespace: "web", Name: "x"}, test.number, secret)
			if err != nil || got != test.want {
				t.Errorf("origin %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// older removes the seal and sets an earlier creation time.
func older(at metav1.Time) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.CreationTimestamp = at
		delete(s.Annotations, annotation.ReleaseSeal)
	}
}

// kubectl may have applied the hooks of the agent's chart, among them an empty Secret.
func TestEmptySealKey_IsFilled(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: names.ReleaseKey, Namespace: "agents"}})
	seal := &Seal{secrets: client.CoreV1().Secrets("agents"), named: func(placement.Release) int { return 0 }}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	if _, err := seal.origin(t.Context(), placement.Release{}, 1, secret); err != nil {
		t.Fatal(err)
	}
	if err := seal.put(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if found, err := seal.origin(t.Context(), placement.Release{}, 1, secret); found != originAgent || err != nil {
		t.Errorf("origin %v, %v", found, err)
	}
}

func TestSealWithoutAKey_MakesOne(t *testing.T) {
	client := fake.NewClientset()
	secret := func() *corev1.Secret { return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}} }
	first, second := secret(), secret()
	for _, s := range []*corev1.Secret{first, second} {
		if err := (&Seal{secrets: client.CoreV1().Secrets("agents")}).put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if mark := first.Annotations[annotation.ReleaseSeal]; mark == "" || mark != second.Annotations[annotation.ReleaseSeal] {
		t.Errorf("seals %q and %q", mark, second.Annotations)
	}
}

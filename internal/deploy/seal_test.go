package deploy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestSeal(t *testing.T) {
	made := metav1.NewTime(noon)
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: sealSecret, Namespace: "agents", CreationTimestamp: made},
		Data:       map[string][]byte{sealKey: []byte("0123456789abcdef0123456789abcdef")},
	}
	before, after := metav1.NewTime(noon.Add(-time.Second)), made
	tests := map[string]struct {
		noKey  bool
		number int
		change func(*corev1.Secret)
		want   origin
	}{
		"as it was sealed: the agent's":               {change: func(*corev1.Secret) {}, want: originAgent},
		"with other labels: the agent's":              {change: func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }, want: originAgent},
		"another content: another's":                  {change: func(s *corev1.Secret) { s.Data[releaseDataKey] = []byte("x") }, want: originOther},
		"another name: another's":                     {change: func(s *corev1.Secret) { s.Name = "y" }, want: originOther},
		"another namespace: another's":                {change: func(s *corev1.Secret) { s.Namespace = "y" }, want: originOther},
		"no seal, named by the hub: another's":        {number: 3, change: func(s *corev1.Secret) { s.Annotations = nil }, want: originOther},
		"no seal, older and named: the agent's":       {number: 3, change: older(before), want: originAgent},
		"no seal, older and before that: the agent's": {number: 2, change: older(before), want: originAgent},
		"no seal, older and later than that: older":   {number: 4, change: older(before), want: originOlder},
		"no key yet, named: the agent's":              {noKey: true, number: 3, change: func(*corev1.Secret) {}, want: originAgent},
		"no key yet, not named: older":                {noKey: true, number: 4, change: func(*corev1.Secret) {}, want: originOlder},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sealing := &seal{secrets: fake.NewClientset(key.DeepCopy()).CoreV1().Secrets("agents"), named: func(releaseKey) int { return 3 }}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", CreationTimestamp: after}, Data: map[string][]byte{releaseDataKey: []byte("release")},
			}
			if err := sealing.put(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			test.change(secret)
			if test.noKey {
				sealing = &seal{secrets: fake.NewClientset().CoreV1().Secrets("agents"), named: sealing.named}
			}
			got, err := sealing.origin(t.Context(), releaseKey{"web", "x"}, test.number, secret)
			if err != nil || got != test.want {
				t.Errorf("origin %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// older takes the seal off, and has the Secret made earlier.
func older(at metav1.Time) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.CreationTimestamp = at
		delete(s.Annotations, fleet.AnnotationReleaseSeal)
	}
}

func TestSealWithoutAKey_MakesOne(t *testing.T) {
	client := fake.NewClientset()
	secret := func() *corev1.Secret { return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}} }
	first, second := secret(), secret()
	for _, s := range []*corev1.Secret{first, second} {
		if err := (&seal{secrets: client.CoreV1().Secrets("agents")}).put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if mark := first.Annotations[fleet.AnnotationReleaseSeal]; mark == "" || mark != second.Annotations[fleet.AnnotationReleaseSeal] {
		t.Errorf("seals %q and %q", mark, second.Annotations)
	}
}

package stored

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const agentNS = "cattle-fleet-system"

func storeOf(local Clients) Store { return Store{Local: local, Namespace: agentNS} }

func identityOf(cluster string) protocol.Identity {
	return protocol.Identity{
		Kubeconfig: []byte("kubeconfig of " + cluster), DeploymentNamespace: "cluster-" + cluster,
		ClusterNamespace: "fleet-default", ClusterName: cluster,
	}
}

func identityObject(cluster string, change ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: names.Agent, Annotations: map[string]string{"fleet.cattle.io/watched": "true"}},
		Type:       corev1.SecretTypeOpaque,
		Data:       identityOf(cluster).Encode(),
	}
	for _, change := range change {
		change(secret)
	}
	return secret
}

func TestStore(t *testing.T) {
	secrets := corev1.Resource("secrets")
	tests := map[string]struct {
		there []runtime.Object
		// inBetween is what others do before our first create or update arrives.
		inBetween func(*testing.T, *fake.Clientset) error
		fails     error // all writes
		want      *corev1.Secret
		writes    []string
		err       error
	}{
		"missing: created": {
			want:   identityObject("new"),
			writes: []string{"create"},
		},
		"existing: changed in place, never deleted": {
			there:  []runtime.Object{identityObject("old")},
			want:   identityObject("new"),
			writes: []string{"update"},
		},
		"fields of other writers stay": {
			there: []runtime.Object{identityObject("old", func(s *corev1.Secret) {
				s.Labels = map[string]string{"backup": "no"}
				s.Data["note"] = []byte("n")
			})},
			want: identityObject("new", func(s *corev1.Secret) {
				s.Labels = map[string]string{"backup": "no"}
				s.Data["note"] = []byte("n")
			}),
			writes: []string{"update"},
		},
		"empty: filled": {
			there:  []runtime.Object{identityObject("old", func(s *corev1.Secret) { s.Data = nil })},
			want:   identityObject("new"),
			writes: []string{"update"},
		},
		"created meanwhile: changed": {
			inBetween: func(_ *testing.T, c *fake.Clientset) error { return c.Tracker().Add(identityObject("old")) },
			want:      identityObject("new"),
			writes:    []string{"create", "update"},
		},
		"deleted meanwhile: created": {
			there: []runtime.Object{identityObject("old")},
			inBetween: func(_ *testing.T, c *fake.Clientset) error {
				return c.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), agentNS, names.Agent)
			},
			want:   identityObject("new"),
			writes: []string{"update", "create"},
		},
		"conflicts without end: an error": {
			there:  []runtime.Object{identityObject("old")},
			fails:  apierrors.NewConflict(secrets, names.Agent, errors.New("changed")),
			want:   identityObject("old"),
			writes: []string{"update", "update", "update", "update", "update"},
			err:    apierrors.NewConflict(secrets, names.Agent, errors.New("changed")),
		},
		"forbidden: an error at once": {
			fails:  apierrors.NewForbidden(secrets, names.Agent, errors.New("no")),
			writes: []string{"create"},
			err:    apierrors.NewForbidden(secrets, names.Agent, errors.New("no")),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			local := fake.NewClientset(test.there...)
			var writes []string
			react := func(action clienttesting.Action) (bool, runtime.Object, error) {
				writes = append(writes, action.GetVerb())
				if test.inBetween != nil && len(writes) == 1 {
					if err := test.inBetween(t, local); err != nil {
						t.Error(err)
					}
				}
				return test.fails != nil, nil, test.fails
			}
			for _, verb := range []string{"create", "update", "patch", "delete"} {
				local.PrependReactor(verb, "secrets", react)
			}
			_, err := storeOf(local).Write(t.Context(), nil, identityOf("new"))
			if test.err != nil && (err == nil || !errors.As(err, new(*apierrors.StatusError))) || test.err == nil && err != nil {
				t.Errorf("error %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(test.writes, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			expectSecret(t, local, test.want)
		})
	}
}

func expectSecret(t *testing.T, local *fake.Clientset, want *corev1.Secret) {
	t.Helper()
	got, err := local.CoreV1().Secrets(agentNS).Get(t.Context(), names.Agent, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && want == nil {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	ignored := cmp.Options{
		cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields"),
		cmpopts.IgnoreFields(corev1.Secret{}, "TypeMeta"),
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
}

func TestDropBootstrap(t *testing.T) {
	seen := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: names.AgentBootstrap, UID: "u1", ResourceVersion: "7"}}
	secrets := corev1.Resource("secrets")
	broken := errors.New("etcd is gone")
	tests := map[string]struct {
		answer error
		err    error
	}{
		"existing: deleted":        {},
		"missing: success":         {answer: apierrors.NewNotFound(secrets, seen.Name)},
		"replaced meanwhile: kept": {answer: apierrors.NewConflict(secrets, seen.Name, errors.New("uid"))},
		"other errors: ignored":    {answer: broken, err: broken},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			local := fake.NewClientset(seen)
			var conditions *metav1.Preconditions
			local.PrependReactor("delete", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
				conditions = action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
				return true, nil, test.answer
			})
			if err := storeOf(local).DropBootstrap(t.Context(), seen); !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(&metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}, conditions); diff != "" {
				t.Errorf("the secret that was looked at and no other (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStore_UpdatesTheSecretThatWasRead(t *testing.T) {
	version := func(v string) func(*corev1.Secret) { return func(s *corev1.Secret) { s.ResourceVersion = v } }
	note := func(s *corev1.Secret) { s.Data["note"] = []byte("n") }
	tests := map[string]struct {
		there, seen *corev1.Secret
		requests    []string
		want        *corev1.Secret
		err         func(error) bool
	}{
		"it is the current version: one request": {
			there: identityObject("old", version("7")), seen: identityObject("old", version("7")),
			requests: []string{"update"}, want: identityObject("new"),
		},
		"it has changed since: conflict": {
			there: identityObject("old", version("8"), note), seen: identityObject("old", version("7")),
			requests: []string{"update"}, want: identityObject("old", note), err: apierrors.IsConflict,
		},
		"it was deleted since: not found": {
			seen: identityObject("old", version("7")), requests: []string{"update"}, err: apierrors.IsNotFound,
		},
		"it has no version: read again": {
			there: identityObject("old", version("8"), note), seen: identityObject("old"),
			requests: []string{"get", "update"}, want: identityObject("new", note),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			local := fake.NewClientset()
			if test.there != nil {
				local = fake.NewClientset(test.there)
			}
			var requests []string
			local.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
				requests = append(requests, action.GetVerb())
				update, isUpdate := action.(clienttesting.UpdateAction)
				if !isUpdate || action.GetVerb() != "update" || test.there == nil {
					return false, nil, nil
				}
				if written, ok := update.GetObject().(*corev1.Secret); ok && written.ResourceVersion != test.there.ResourceVersion {
					return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), names.Agent, errors.New("changed"))
				}
				return false, nil, nil
			})
			stored, err := storeOf(local).Write(t.Context(), test.seen, identityOf("new"))
			if test.err == nil && err != nil || test.err != nil && !test.err(err) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.requests, requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if err == nil && !reflect.DeepEqual(test.want.Data, stored.Data) {
				t.Errorf("returned %v, want %v", stored.Data, test.want.Data)
			}
			expectSecret(t, local, test.want)
		})
	}
}

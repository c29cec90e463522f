package agent

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

const (
	namespace = "cattle-fleet-system"
	pod       = "fleet-agent-67c6bbb6d9-6448l"
)

func lease(holder *string) *coordinationv1.Lease {
	seconds := int32(30)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet-agent", ResourceVersion: "7"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: holder, LeaseDurationSeconds: &seconds},
	}
}

func TestRelease(t *testing.T) {
	leases := coordinationv1.Resource("leases")
	broken := errors.New("etcd is gone")
	text := func(s string) *string { return &s }
	tests := map[string]struct {
		there   *coordinationv1.Lease
		getting error
		writing error
		want    *coordinationv1.Lease // written
		err     error
	}{
		"no Lease":                                     {},
		"Lease without a holder":                       {there: lease(nil)},
		"Lease that was released":                      {there: lease(text(""))},
		"Lease of the former container of this pod":    {there: lease(text(pod + "_abc")), want: lease(text(""))},
		"Lease of another pod":                         {there: lease(text("fleet-agent-67c6bbb6d9-abcde_abc"))},
		"Lease of a pod whose name has ours as prefix": {there: lease(text(pod + "2_abc"))},
		"Lease of an agent of Rancher Fleet":           {there: lease(text(pod + "-1"))},
		"conflict on update": {
			there: lease(text(pod + "_abc")), writing: apierrors.NewConflict(leases, "fleet-agent", broken), want: lease(text("")),
		},
		"Lease cannot be read":    {getting: broken, err: broken},
		"Lease cannot be written": {there: lease(text(pod + "_abc")), writing: broken, want: lease(text("")), err: broken},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if test.there != nil {
				client = fake.NewClientset(test.there)
			}
			client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				return test.getting != nil, nil, test.getting
			})
			var written *coordinationv1.Lease
			client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
				written = action.(clienttesting.UpdateActionImpl).Object.(*coordinationv1.Lease)
				return true, written, test.writing
			})
			if err := release(t.Context(), client.CoordinationV1().Leases(namespace), predecessors(pod)); !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			if written != nil {
				written.ManagedFields = nil
				written.TypeMeta = metav1.TypeMeta{}
			}
			if diff := cmp.Diff(test.want, written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

// The host of the configuration cannot be reached, so any request is an error.
func TestInherit_OutsideAnAgentPodReadsNoLease(t *testing.T) {
	for _, identity := range []string{"", "my-laptop", "fleet-agent", "node-1"} {
		if err := inherit(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, namespace, identity); err != nil {
			t.Errorf("as %q: %v", identity, err)
		}
	}
	if err := inherit(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, namespace, pod); err == nil {
		t.Error("in a pod the lease was not looked at")
	}
}

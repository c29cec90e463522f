package grant

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestReadersOfRancherFleet_AreSparedWhileTheCredentialExists(t *testing.T) {
	hub := start(t)
	registration := hub.App.Namespaces.Registration
	member := func(namespace, hash string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "x", Labels: map[string]string{fleet.LabelSetHash: hash, fleet.LabelManaged: "true"}}
	}
	hub.Put(&corev1.Secret{ObjectMeta: member(registration, "waits"), Type: protocol.SecretTypeCredential})
	tests := map[string]struct {
		member metav1.ObjectMeta
		want   bool
	}{
		"credential exists: spared":             {member(registration, "waits"), true},
		"credential is deleted: not spared":     {member(registration, "fetched"), false},
		"Role in another namespace: not spared": {member("ws", "waits"), false},
		"Role without a set: not spared":        {metav1.ObjectMeta{Namespace: registration, Name: "x"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := keepsWhileCredentialExists(hub.App)(&rbacv1.Role{ObjectMeta: test.member}); got != test.want {
				t.Errorf("spared: %t", got)
			}
		})
	}
}

package takeover_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// registered are the recorded clusters, and the account each agent works as.
func registered() map[string]agent {
	return map[string]agent{
		"east": {
			workspace: "fleet-default", cluster: "east", request: "request-5k4nm",
			namespace: "cluster-fleet-default-east-0f0350029557",
		},
		"west": {
			workspace: "fleet-default", cluster: "cluster-3f8a81b9896a", request: "request-pvwtt",
			namespace: "cluster-fleet-default-cluster-3f8a81b9896a-c330adc823da",
		},
		"hub": {
			workspace: "fleet-local", cluster: "local", request: "request-sbpkm",
			namespace: "cluster-fleet-local-local-1a3d67d0a899",
		},
	}
}

// agent is a recorded one, which works with the long-lived token that its account had.
type agent struct{ workspace, cluster, request, namespace string }

// tokenSecret is the Secret with the token that another Secret holds a copy of; both names are empty if it holds none.
func tokenSecret(secret *unstructured.Unstructured) (namespace, name string) {
	switch secret.Object["type"] {
	case "fleet.cattle.io/cluster-registration-values":
		for _, owner := range secret.GetOwnerReferences() {
			return secret.GetNamespace(), names.ImportAccount(owner.Name, string(owner.UID)) + "-token"
		}
	case "fleet.cattle.io/agent-credential":
		for _, a := range registered() {
			if a.cluster == secret.GetLabels()["fleet.cattle.io/cluster"] {
				return a.namespace, a.request
			}
		}
	}
	switch secret.GetName() {
	case names.LocalKubeconfig:
		return names.SystemNamespace, names.BootstrapAccount + "-token"
	case names.Agent:
		return registered()["hub"].namespace, registered()["hub"].request
	}
	return "", ""
}

// token waits for an account's token; a name that is not the Secret's is the beginning of its account's.
func (h *oldHub) token(ctx context.Context, namespace, name string) (token string, err error) {
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := h.client.Resource(resourceOf("Secret")).Namespace(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "type=kubernetes.io/service-account-token",
		})
		if err != nil {
			return false, err
		}
		for _, secret := range list.Items {
			encoded, filled, _ := unstructured.NestedString(secret.Object, "data", "token")
			if len(secret.GetName()) < len(name) || secret.GetName()[:len(name)] != name || !filled {
				continue
			}
			decoded, err := base64.StdEncoding.DecodeString(encoded)
			token = string(decoded)
			return true, err
		}
		return false, nil
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the token of %s/%s: %w", namespace, name, err)
	}
	return token, nil
}

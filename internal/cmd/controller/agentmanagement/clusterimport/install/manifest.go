package install

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// Manifest returns the objects that an import applies, as YAML documents for `kubectl apply`: the agent's namespace, the
// pull Secrets and the agent with its bootstrap Secret. own is the UID of this hub.
func Manifest(deploy *importing.AgentDeployment, pullSecrets []*corev1.Secret, own types.UID) ([]byte, error) {
	rendered, err := agentchart.Render(deploy.Values)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	objects := make([]runtime.Object, 0, len(pullSecrets)+len(rendered))
	for _, source := range pullSecrets {
		objects = append(objects, copyOf(source, deploy.Values.Namespace))
	}
	return agentchart.Documents(desired(deploy, append(objects, WithHub(rendered, own)...))...)
}

// EmptyManifest returns a manifest that `kubectl apply` accepts and that installs nothing: the agent's namespace, which
// exists by then.
func EmptyManifest(deploy *importing.AgentDeployment) ([]byte, error) {
	return agentchart.Documents(marked(deploy.SetID, namespaceOf(deploy))...)
}

package registering

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// RequestInput is what an agent's ClusterRegistration is made of.
type RequestInput struct {
	Bootstrap protocol.Bootstrap
	Config    config.Agent
	// SystemUID is the UID of the downstream namespace kube-system, the client ID where none is configured.
	SystemUID string
	// Random is the request's own random part, 54 characters.
	Random string
	// Pod is the agent's host name; empty or not a label value: left out.
	Pod string
}

// NewRequest is the ClusterRegistration that asks for an identity. The hub names
// it. The label with the token's name is what lets the hub show the credential to the token's account; a
// name that is no label value cannot be told that way, and the label is left out.
func NewRequest(in RequestInput) *fleet.ClusterRegistration {
	request := &fleet.ClusterRegistration{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "ClusterRegistration"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "request-", Namespace: in.Bootstrap.ClusterNamespace},
		Spec: fleet.ClusterRegistrationSpec{
			ClientID:      in.Config.ClientID,
			ClientRandom:  in.Random,
			ClusterLabels: map[string]string{},
		},
	}
	if request.Spec.ClientID == "" {
		request.Spec.ClientID = in.SystemUID
	}
	if objects.IsLabelValue(in.Bootstrap.TokenName) {
		request.Labels = map[string]string{fleet.LabelRegistrationToken: in.Bootstrap.TokenName}
	}
	for key, value := range in.Config.Labels {
		request.Spec.ClusterLabels[key] = value
	}
	if objects.IsLabelValue(in.Pod) {
		request.Spec.ClusterLabels[fleet.LabelCreatedByAgentPod] = in.Pod
	}
	return request
}

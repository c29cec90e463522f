package registering

import (
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// RequestInput is the input of NewRequest.
type RequestInput struct {
	Bootstrap protocol.Bootstrap
	Config    config.Agent
	// SystemUID is the UID of the downstream namespace kube-system. It is the client ID if none is configured.
	SystemUID string
	// Random is the random part of the request, 54 characters.
	Random string
	// Ticket is the ticket of a recovery request, and empty otherwise.
	Ticket string
	// Pod is the agent's host name. It is left out if it is empty or not a valid label value.
	Pod string
}

// NewRequest returns the ClusterRegistration that requests an identity. The hub generates its name. The label with the
// token's name lets the hub show the credential to the token's account. A name that is not a valid label value is left
// out.
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
	if in.Ticket != "" {
		request.Annotations = map[string]string{annotation.AgentTicket: in.Ticket}
	}
	for key, value := range in.Config.Labels {
		request.Spec.ClusterLabels[key] = value
	}
	if objects.IsLabelValue(in.Pod) {
		request.Spec.ClusterLabels[fleet.LabelCreatedByAgentPod] = in.Pod
	}
	return request
}

// The random part of a request has 54 characters from an alphabet of 27.
const (
	randomAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	randomLength   = 54
)

// NewClientRandom returns the random part of a request. It chooses each character with equal probability. It discards
// bytes that would favor the first characters of the alphabet.
func NewClientRandom(random io.Reader) (string, error) {
	const fair = 256 - 256%len(randomAlphabet)
	text := make([]byte, 0, randomLength)
	buffer := make([]byte, randomLength)
	for len(text) < randomLength {
		if _, err := io.ReadFull(random, buffer); err != nil {
			return "", fmt.Errorf("drawing clientRandom: %w", err)
		}
		for _, b := range buffer {
			if int(b) < fair && len(text) < randomLength {
				text = append(text, randomAlphabet[int(b)%len(randomAlphabet)])
			}
		}
	}
	return string(text), nil
}

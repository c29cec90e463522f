package registering

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestNewRequest(t *testing.T) {
	bootstrap := protocol.Bootstrap{ClusterNamespace: "fleet-default", TokenName: "swarm"}
	tests := map[string]struct {
		in   RequestInput
		want *fleet.ClusterRegistration
	}{
		"the recorded request of an agent with a configuration": {
			in: RequestInput{
				Bootstrap: protocol.Bootstrap{ClusterNamespace: "fleet-default", TokenName: "import-token-east"},
				Config:    config.Agent{ClientID: "kskbsmnqrf4zv8bx27pndmghfxxz9mxpd8mtccqdmnrvdwzslrxzlv", Labels: map[string]string{"env": "dev"}},
				SystemUID: "not used",
				Random:    "qbb5l298nn8sdtpknwcsg5tzfcdr6f9vpjhz6nxfq29jn4gthvm9pv",
				Pod:       "fleet-agent-67c6bbb6d9-6448l",
			},
			want: agentRegistration("import-token-east", fleet.ClusterRegistrationSpec{
				ClientID:     "kskbsmnqrf4zv8bx27pndmghfxxz9mxpd8mtccqdmnrvdwzslrxzlv",
				ClientRandom: "qbb5l298nn8sdtpknwcsg5tzfcdr6f9vpjhz6nxfq29jn4gthvm9pv",
				ClusterLabels: map[string]string{
					"env": "dev", "fleet.cattle.io/created-by-agent-pod": "fleet-agent-67c6bbb6d9-6448l",
				},
			}),
		},
		"no configured client ID: UID of kube-system": {
			in: RequestInput{Bootstrap: bootstrap, SystemUID: "2f3ef2b9", Random: "r"},
			want: agentRegistration("swarm", fleet.ClusterRegistrationSpec{
				ClientID: "2f3ef2b9", ClientRandom: "r", ClusterLabels: map[string]string{},
			}),
		},
		"no token name: no label": {
			in: RequestInput{Bootstrap: protocol.Bootstrap{ClusterNamespace: "fleet-default"}, SystemUID: "u", Random: "r"},
			want: agentRegistration("", fleet.ClusterRegistrationSpec{
				ClientID: "u", ClientRandom: "r", ClusterLabels: map[string]string{},
			}),
		},
		"a token name that is too long for a label is left out": {
			in: RequestInput{
				Bootstrap: protocol.Bootstrap{ClusterNamespace: "fleet-default", TokenName: strings.Repeat("t", 64)}, SystemUID: "u", Random: "r",
			},
			want: agentRegistration("", fleet.ClusterRegistrationSpec{
				ClientID: "u", ClientRandom: "r", ClusterLabels: map[string]string{},
			}),
		},
		"a host name that is not a label value is left out": {
			in: RequestInput{Bootstrap: bootstrap, SystemUID: "u", Random: "r", Pod: "my host"},
			want: agentRegistration("swarm", fleet.ClusterRegistrationSpec{
				ClientID: "u", ClientRandom: "r", ClusterLabels: map[string]string{},
			}),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, NewRequest(test.in)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func agentRegistration(token string, spec fleet.ClusterRegistrationSpec) *fleet.ClusterRegistration {
	request := &fleet.ClusterRegistration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "ClusterRegistration"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", GenerateName: "request-"},
		Spec:       spec,
	}
	if token != "" {
		request.Labels = map[string]string{"fleet.cattle.io/registration-token": token}
	}
	return request
}

func TestNewRequest_CopiesLabels(t *testing.T) {
	labels := map[string]string{"env": "dev"}
	request := NewRequest(RequestInput{Config: config.Agent{Labels: labels}, Pod: "pod"})
	request.Spec.ClusterLabels["env"] = "prod"
	if diff := cmp.Diff(map[string]string{"env": "dev"}, labels); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestNewRequest_EncodesOnlyFieldsOfTheAgent(t *testing.T) {
	encoded, err := json.Marshal(NewRequest(RequestInput{
		Bootstrap: protocol.Bootstrap{ClusterNamespace: "fleet-default", TokenName: "t1"}, SystemUID: "u", Random: "r", Pod: "p",
	}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"kind":"ClusterRegistration","apiVersion":"fleet.cattle.io/v1alpha1",` +
		`"metadata":{"generateName":"request-","namespace":"fleet-default","labels":{"fleet.cattle.io/registration-token":"t1"}},` +
		`"spec":{"clientID":"u","clientRandom":"r","clusterLabels":{"fleet.cattle.io/created-by-agent-pod":"p"}},"status":{}}`
	if diff := cmp.Diff(want, string(encoded)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

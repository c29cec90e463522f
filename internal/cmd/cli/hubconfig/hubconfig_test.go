package hubconfig

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

func TestAgentImage_IsThatOfTheHub(t *testing.T) {
	for name, test := range map[string]struct{ config, private, want string }{
		"named":           {`{"agentImage": "registry.example.com/fleet-agent:v1"}`, "", "registry.example.com/fleet-agent:v1"},
		"not named":       {`{}`, "", ""},
		"no JSON":         {`{`, "", ""},
		"not a ConfigMap": {"", "", ""},
		"of a Cluster with a registry": {
			`{"agentImage": "registry.example.com/fleet/fleet-agent:v1", "systemDefaultRegistry": "registry.example.com/"}`, "private.example.com",
			"private.example.com/fleet/fleet-agent:v1",
		},
		"not named, with a registry": {`{}`, "private.example.com", ""},
	} {
		t.Run(name, func(t *testing.T) {
			hub := fake.NewClientset()
			if test.config != "" {
				hub = fake.NewClientset(&corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: names.ControllerConfig},
					Data:       map[string]string{names.ConfigKey: test.config},
				})
			}
			if got := AgentImage(t.Context(), hub, test.private); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Tenants may not read the configuration. A Cluster with the mark of Cluster API then counts as one that the hub creates again.
func TestConfigurationThatCannotBeRead_FollowsClusterAPI(t *testing.T) {
	if found := Read(t.Context(), fake.NewClientset()); !found.CAPI.Enabled || found.Bootstrap.Namespace != "fleet-local" {
		t.Errorf("%+v", found)
	}
}

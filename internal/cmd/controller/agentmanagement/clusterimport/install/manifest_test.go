package install

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const secretToken = "the-bearer-token"

func newAgent(changes ...func(*fleet.Cluster)) *importing.AgentDeployment {
	bootstrap := protocol.Bootstrap{
		APIServerURL: rulestest.HubURL, APIServerCA: []byte(rulestest.HubCA), ClusterNamespace: "team-a", Token: secretToken, TokenName: "t",
		SystemRegistrationNamespace: rulestest.HubNamespaces().Registration,
	}
	conf := rulestest.HubConfig()
	conf.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	return importing.NewAgent(rulestest.ACluster(changes...), conf, rulestest.HubDefaults(), rulestest.HubNamespaces(), bootstrap)
}

func parse(t *testing.T, manifest []byte) (objects []*unstructured.Unstructured) {
	t.Helper()
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

func TestManifest_InstallsAnAgentThatRegisters(t *testing.T) {
	pull := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: "pull", UID: "u"}, Type: "t", Data: map[string][]byte{"k": []byte("v")}}
	deploy := newAgent()
	manifest, err := Manifest(deploy, []*corev1.Secret{pull}, "hub-1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range parse(t, manifest) {
		got = append(got, object.GetKind()+" "+object.GetName())
		if object.GetLabels()[fleet.LabelSetHash] != names.SetHash(deploy.SetID, names.Owner{}) {
			t.Errorf("%s %s has no mark of the set", object.GetKind(), object.GetName())
		}
		if mark := object.GetAnnotations()[annotation.HubUID]; (object.GetKind() == "ConfigMap") != (mark == "hub-1") {
			t.Errorf("%s %s has the hub's mark %q", object.GetKind(), object.GetName(), mark)
		}
		if object.GetKind() != "Namespace" && !strings.HasPrefix(object.GetKind(), "ClusterRole") && object.GetNamespace() != names.SystemNamespace {
			t.Errorf("%s %s is in namespace %q", object.GetKind(), object.GetName(), object.GetNamespace())
		}
	}
	want := []string{
		"Namespace cattle-fleet-system", "ConfigMap fleet-agent", "Secret pull", "Secret fleet-agent-bootstrap",
		"ClusterRole cattle-fleet-system-fleet-agent-role", "ClusterRoleBinding cattle-fleet-system-fleet-agent-role-binding",
		"ServiceAccount fleet-agent", "ServiceAccount default", "Deployment fleet-agent", "NetworkPolicy default-allow-all",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if agent := parse(t, manifest)[1].Object["data"].(map[string]any)["config"].(string); !strings.Contains(agent, rulestest.ACluster().Spec.ClientID) {
		t.Errorf("configuration %s", agent)
	}
	if len(manifest) > 12<<10 { // bootstrap data has limits, with some clouds 16 KiB
		t.Errorf("%d bytes", len(manifest))
	}
}

func TestManifest_OfSettingsThatTheChartRefuses_IsAnError(t *testing.T) {
	deploy := newAgent()
	deploy.Values.ImagePullPolicy = "Sometimes"
	if _, err := Manifest(deploy, nil, "hub-1"); !errors.Is(err, ErrSettings) {
		t.Errorf("error %v", err)
	}
}

func TestEmptyManifest_HasOnlyTheNamespace(t *testing.T) {
	manifest, err := EmptyManifest(newAgent(func(c *fleet.Cluster) { c.Spec.AgentNamespace = "agents" }))
	if err != nil {
		t.Fatal(err)
	}
	if got := parse(t, manifest); len(got) != 1 || got[0].GetKind() != "Namespace" || got[0].GetName() != "agents" {
		t.Errorf("manifest:\n%s", manifest)
	}
	if strings.Contains(string(manifest), secretToken) {
		t.Error("it contains the token")
	}
}

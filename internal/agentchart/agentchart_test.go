package agentchart_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// settings are those of the recorded clusters, with modifiers.
func settings(modify ...func(*importing.AgentValues)) importing.AgentValues {
	v := importing.AgentValues{
		Namespace: "cattle-fleet-system", Replicas: 1,
		Image: "rancher/fleet-agent:dev", ImagePullPolicy: "IfNotPresent",
		CheckinInterval: "15m0s", BundleDeploymentWorkers: "50", DriftWorkers: "50",
		LeaseDuration: "30s", RetryPeriod: "10s", RenewDeadline: "25s",
	}
	for _, m := range modify {
		m(&v)
	}
	return v
}

func withLocalTolerations(v *importing.AgentValues) {
	v.Tolerations = []corev1.Toleration{{Key: "cattle.io/os", Operator: corev1.TolerationOpEqual, Value: "linux", Effect: corev1.TaintEffectNoSchedule}}
}

func TestManifest_MatchesTheRecording(t *testing.T) {
	tests := map[string]struct {
		bundle, sha256 string
		in             importing.AgentValues
	}{
		"a downstream cluster": {
			bundle: "fleet-agent-east", sha256: "f433d17da27701e118e48d2c826a7e8e6d522649969e1345dea354fb4f2988cd", in: settings(),
		},
		"another downstream cluster": {
			bundle: "fleet-agent-cluster-3f8a81b9896a", sha256: "f433d17da27701e118e48d2c826a7e8e6d522649969e1345dea354fb4f2988cd", in: settings(),
		},
		"the hub itself, with a toleration of its controller": {
			bundle: "fleet-agent-local", sha256: "c07e7a7ac14dc372d25f87c1cadd3090eae2a8a10c3d638f61202cae2e172006",
			in: settings(withLocalTolerations),
		},
	}
	recorded := recordedManifests(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := agentchart.Manifest(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(recorded[test.bundle], string(got)); diff != "" {
				t.Errorf("manifest (-recorded +got):\n%s", diff)
			}
			if got := contentHash(t, string(got)); got != test.sha256 {
				t.Errorf("content hash %s, recorded %s", got, test.sha256)
			}
		})
	}
}

// recordedManifests is agent.yaml by the name of its Bundle.
func recordedManifests(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "recorded", "hub", "bundles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, document := range strings.Split(string(text), "\n---\n") {
		var bundle struct {
			Metadata struct{ Name string }
			Spec     struct {
				Resources []struct{ Name, Content string }
			}
		}
		if err := yaml.Unmarshal([]byte(document), &bundle); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(bundle.Metadata.Name, "fleet-agent-") {
			found[bundle.Metadata.Name] = bundle.Spec.Resources[0].Content
		}
	}
	return found
}

// contentHash is the hash of a Bundle's only resource, written out here so that a
// mistake in the code that computes it elsewhere does not hide one of the manifest.
func contentHash(t *testing.T, manifest string) string {
	t.Helper()
	content, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "{\"resources\":[{\"name\":%q,\"content\":%s}]}\n", agentchart.ManifestName, content))
	return hex.EncodeToString(sum[:])
}

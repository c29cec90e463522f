package hub

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// cachedDeployment returns a recorded BundleDeployment as decoded, and as a cache keeps it.
func cachedDeployment(t *testing.T, p *pool, changes ...func(*fleet.BundleDeployment)) (decoded, kept *fleet.BundleDeployment) {
	t.Helper()
	decoded, kept = &fleet.BundleDeployment{}, &fleet.BundleDeployment{}
	for _, into := range []*fleet.BundleDeployment{decoded, kept} {
		if err := json.Unmarshal([]byte(recordedDocument(t, "bundledeployments", "name: fleet-agent-east")), into); err != nil {
			t.Fatal(err)
		}
		into.ManagedFields = nil
		for _, change := range changes {
			change(into)
		}
	}
	if _, err := p.slim(kept); err != nil {
		t.Fatal(err)
	}
	return decoded, kept
}

func TestCachedBundleDeployment_KeepsItsContent(t *testing.T) {
	tests := map[string]func(*fleet.BundleDeployment){
		"as it was recorded": func(*fleet.BundleDeployment) {},
		"with a change that is staged": func(bd *fleet.BundleDeployment) {
			bd.Spec.StagedOptions.DefaultNamespace, bd.Spec.StagedDeploymentID = "other", "s-2:b"
		},
		"with a message that is too long to be shared": func(bd *fleet.BundleDeployment) {
			bd.Status.Conditions[0].Message = strings.Repeat("m", longestWord+1)
		},
		"with options": func(bd *fleet.BundleDeployment) {
			bd.Spec.Options.Helm = &fleet.HelmOptions{ReleaseName: "web"}
			bd.Spec.StagedOptions.Helm = &fleet.HelmOptions{ReleaseName: "web"}
		},
		"without labels, finalizers and conditions": func(bd *fleet.BundleDeployment) {
			bd.Labels, bd.Finalizers, bd.Status.Conditions = nil, nil, nil
		},
		"of which nobody has reported": func(bd *fleet.BundleDeployment) { bd.Status = fleet.BundleDeploymentStatus{} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			decoded, kept := cachedDeployment(t, newPool(), change, func(bd *fleet.BundleDeployment) {
				bd.Status.Resources = []fleet.DeployedResource{{Kind: "ConfigMap", Name: "one"}}
			})
			decoded.Status.Resources = nil // no controller reads the deployed resources
			decoded.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(decoded, kept); diff != "" {
				t.Errorf("(-decoded +kept):\n%s", diff)
			}
		})
	}
}

func TestBundleDeployments_ShareTexts(t *testing.T) {
	p := newPool()
	_, one := cachedDeployment(t, p)
	_, other := cachedDeployment(t, p, func(bd *fleet.BundleDeployment) { bd.Labels["example.com/more"] = "one" })
	tests := map[string][2]string{
		"names":                      {one.Name, other.Name},
		"deployment IDs":             {one.Spec.DeploymentID, other.Spec.DeploymentID},
		"what is staged and current": {one.Spec.DeploymentID, one.Spec.StagedDeploymentID},
		"what is wanted and applied": {one.Spec.DeploymentID, one.Status.AppliedDeploymentID},
		"conditions":                 {one.Status.Conditions[0].Type, other.Status.Conditions[0].Type},
		"when they changed":          {one.Status.Conditions[0].LastUpdateTime, other.Status.Conditions[0].LastUpdateTime},
		"labels":                     {one.Labels[fleet.LabelCluster], other.Labels[fleet.LabelCluster]},
		"finalizers":                 {one.Finalizers[0], other.Finalizers[0]},
	}
	for name, texts := range tests {
		t.Run(name, func(t *testing.T) {
			if texts[0] == "" || texts[0] != texts[1] {
				t.Fatalf("they differ: %q", texts)
			}
			if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
				t.Error("each has its own")
			}
		})
	}
	_, staged := cachedDeployment(t, p, func(bd *fleet.BundleDeployment) {
		bd.Spec.Options.Helm, bd.Spec.StagedOptions.Helm = &fleet.HelmOptions{ReleaseName: "a"}, &fleet.HelmOptions{ReleaseName: "a"}
	})
	if staged.Spec.Options.Helm != staged.Spec.StagedOptions.Helm {
		t.Error("options that are the same are there twice")
	}
}

func TestWordsAreBounded(t *testing.T) {
	w := newWords()
	for i := range mostWords + 10 {
		text := strconv.Itoa(i)
		if w.share(&text); text != strconv.Itoa(i) {
			t.Fatalf("%d became %s", i, text)
		}
		if len(w.known) > mostWords {
			t.Fatalf("%d are known", len(w.known))
		}
	}
	long := strings.Repeat("x", longestWord+1)
	before := len(w.known)
	if w.share(&long); len(w.known) != before {
		t.Error("a text was kept that is no word")
	}
}

// mostOfADeployment limits the memory in the caches for one BundleDeployment of ten objects, in bytes, on a hub with
// twenty thousand.
const mostOfADeployment = 4 << 10

func TestMemoryOfABundleDeployment_IsLimited(t *testing.T) {
	const clusters, bundles = 250, 8
	texts := newPool()
	document := recordedDocument(t, "bundledeployments", "name: fleet-agent-east")
	kept := make([]*fleet.BundleDeployment, 0, clusters*bundles)
	before := liveHeap()
	for i := range clusters * bundles {
		bd := &fleet.BundleDeployment{}
		of := strings.ReplaceAll(document, "fleet-agent-east", fmt.Sprintf("bundle-%d", i%bundles))
		if err := json.Unmarshal([]byte(strings.ReplaceAll(of, "east", fmt.Sprintf("ea%04d", i/bundles))), bd); err != nil {
			t.Fatal(err)
		}
		for j := range 10 {
			bd.Status.Resources = append(bd.Status.Resources, fleet.DeployedResource{
				Kind: "ConfigMap", APIVersion: "v1", Namespace: "fleet-bench", Name: fmt.Sprintf("%s-%d", bd.Name, j), CreatedAt: metav1.Unix(1, 0),
			})
		}
		if _, err := texts.slim(bd); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, bd)
	}
	each := (liveHeap() - before) / (clusters * bundles)
	runtime.KeepAlive(kept)
	t.Logf("%d bytes for each BundleDeployment", each)
	if each > mostOfADeployment {
		t.Errorf("a BundleDeployment takes %d bytes of the caches, more than %d", each, mostOfADeployment)
	}
}

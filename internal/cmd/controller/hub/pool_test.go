package hub

import (
	"strconv"
	"strings"
	"testing"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// cachedBundle returns a decoded Bundle with its own content, after it was put into a cache.
func cachedBundle(t *testing.T, p *pool, set, content string) *fleet.Bundle {
	t.Helper()
	obj, err := p.slim(&fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationSetID: set}},
		Spec:       fleet.BundleSpec{Resources: []fleet.BundleResource{{Name: "agent.yaml", Content: strings.Clone(content)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	bundle, ok := obj.(*fleet.Bundle)
	if !ok || bundle.Spec.Resources[0].Content != content {
		t.Fatalf("it became %+v", obj)
	}
	return bundle
}

func TestAgentBundles_ShareManifests(t *testing.T) {
	same := func(a, b *fleet.Bundle) bool {
		return unsafe.StringData(a.Spec.Resources[0].Content) == unsafe.StringData(b.Spec.Resources[0].Content)
	}
	tests := map[string]struct {
		set, content string
		want         bool
	}{
		"two agents with the same settings":  {names.AgentBundleSet, "kind: Deployment", true},
		"two agents with different settings": {names.AgentBundleSet, "kind: Deployment, another", false},
		"users' Bundles are not looked at":   {"theirs", "kind: Deployment", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPool()
			if got := same(cachedBundle(t, p, names.AgentBundleSet, "kind: Deployment"), cachedBundle(t, p, test.set, test.content)); got != test.want {
				t.Errorf("shared: %t", got)
			}
		})
	}
}

func TestAPoolIsBounded(t *testing.T) {
	p := newPool()
	for i := range 3 * mostTexts {
		cachedBundle(t, p, names.AgentBundleSet, strconv.Itoa(i))
		if len(p.texts) > mostTexts {
			t.Fatalf("%d texts are known", len(p.texts))
		}
	}
}

func TestPool_SlimsOtherObjects(t *testing.T) {
	got, err := newPool().slim(&fleet.Content{Content: []byte("much")})
	if content, ok := got.(*fleet.Content); err != nil || !ok || content.Content != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

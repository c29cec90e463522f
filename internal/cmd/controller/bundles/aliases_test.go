package bundles_test

import (
	"runtime"
	"strings"
	"testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestBundleOfOneMegabyteOfAliases_IsRefusedInItsStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster(t, "one", map[string]string{"env": "dev"})
	text := "a: &a " + strings.Repeat("x", 750_000) + "\nb: [" + strings.Repeat("*a,", 80_000) + "*a]\n"
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w.bundle(t, "web", everywhere, func(b *fleet.Bundle) {
		b.Spec.Helm = &fleet.HelmOptions{TemplateValues: map[string]string{"config": text}}
	})
	prefix := "ErrApplied(1) [Cluster " + w.workspace + "/one: targeting error: cluster one in namespace " + w.workspace +
		": helm.templateValues.config: the YAML is too large: "
	w.bundleThat(t, "web", "the reason", func(b *fleet.Bundle) bool {
		message, _ := readyMessage(b)
		return strings.HasPrefix(message, prefix)
	})
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 200<<20 {
		t.Errorf("the heap of the hub and of the test grew by %d MiB", grown>>20)
	}
}

package bundle

import (
	"runtime"
	"strings"
	"testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// aliases is a YAML text of about that length, whose aliases stand for much more.
func aliases(length int) string {
	return "a: &a " + strings.Repeat("x", length/2) + "\nb: [" + strings.Repeat("*a,", length/6) + "*a]\n"
}

func TestBundleOfAliases_IsRefusedWithinFiftyMegabytes(t *testing.T) {
	for name, length := range map[string]int{"70 KB": 70_000, "1 MB": 1_000_000} {
		t.Run(name, func(t *testing.T) {
			b := bundle(everywhere)
			b.Spec.Helm = &fleet.HelmOptions{TemplateValues: map[string]string{"config": aliases(length)}}
			d := newDelivery(t, b, 0)
			labelled := cluster(nameOf(0))
			labelled.Labels = map[string]string{"env": "dev"}
			d.hub.Put(labelled)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := d.pass(t.Context())
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 50<<20 {
				t.Errorf("a pass over the Bundle allocated %d MiB", cost>>20)
			}
			const want = "targeting error: cluster k-000 in namespace ws: helm.templateValues.config: the YAML is too large: "
			if got := d.failures()[nameOf(0)]; !strings.HasPrefix(got, want) {
				t.Errorf("failure = %q, want one that begins with %q", got, want)
			}
			if got := d.all(t); len(got) != 0 {
				t.Errorf("%d BundleDeployments were written", len(got))
			}
		})
	}
}

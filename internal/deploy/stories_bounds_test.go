package deploy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// TestAliasesInATemplate_AreRefusedBeforeHelmReadsThem is not parallel, because it measures allocations.
func TestAliasesInATemplate_AreRefusedBeforeHelmReadsThem(t *testing.T) {
	l := newLab(t, "template-aliases")
	l.start()
	head := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	tests := map[string]map[string]string{
		"written":   template(head + deploytest.ManyAliases("&")),
		"rendered":  template(head + deploytest.ManyAliases(`{{ printf "%c" 38 }}`)),
		"second":    template(head + "---\n" + head + deploytest.ManyAliases("&")),
		"hook":      template(hookOf("a", l.Name, "pre-install") + deploytest.ManyAliases("&")),
		"sub":       deploytest.With(deploytest.HelloFiles("hi"), map[string]string{"charts/s/Chart.yaml": "apiVersion: v2\nname: s\nversion: 0.1.0\n", "charts/s/templates/a.yaml": head + deploytest.ManyAliases("&")}),
		"templates": {"templates/a.yaml": head + deploytest.ManyAliases("&")},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			cost := deploytest.AllocatedBy(func() {
				l.apply(bundle{Name: name, Files: files, Options: deploytest.InNamespace(l.Name)})
				l.expectStatus(name, becauseOf(conditions.Installed, conditions.ReasonManifestInvalid, "the YAML is too large"))
			})
			if cost > 300 {
				t.Errorf("refusing it took %d MiB", cost)
			}
		})
	}
}

// TestRenderedText_IsDeployedAsItIs has templates that render to template syntax, and checks the stored release.
func TestRenderedText_IsDeployedAsItIs(t *testing.T) {
	t.Parallel()
	l := newLab(t, "rendered-text")
	l.start()
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  revision: '{{ .Release.Revision }}'\n" +
		"  text: '{{ \"{{ .Values.greeting }} {{{ {{- /* }}\" }} }}{'\n  upgrade: '{{ .Release.IsUpgrade }}'\n  part: '{{ include \"part\" . }}'\n"
	files := deploytest.With(deploytest.HelloFiles("hi"), map[string]string{"templates/a.yaml": text, "templates/_part.tpl": `{{ define "part" }}{{ randAlpha 3 | len }}{{ end }}`})
	expect := func(revision, upgrade string) {
		t.Helper()
		found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || found.Data["text"] != "{{ .Values.greeting }} {{{ {{- /* }} }}{" || found.Data["revision"] != revision ||
			found.Data["upgrade"] != upgrade || found.Data["part"] != "3" {
			t.Errorf("%v, data %q", err, found.Data)
		}
	}
	l.apply(bundle{Name: "x", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	expect("1", "false")
	l.apply(bundle{Name: "x", Files: deploytest.With(files, map[string]string{"values.yaml": "greeting: salut\n"}), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	expect("2", "true")
	secret, err := l.East.CoreV1().Secrets(l.Name).Get(t.Context(), release.SecretName("x", 2), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := release.Decode(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stored.Chart.Templates {
		if f.Name == "templates/a.yaml" && string(f.Data) != text {
			t.Errorf("the stored chart has the template %s", f.Data)
		}
	}
}

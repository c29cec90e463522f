package pack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestOptions_InvalidOnesAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"not YAML":          {"a: b: c", "reading fleet.yaml: error converting YAML to JSON"},
		"not an object":     {"[a]", "reading fleet.yaml: error unmarshaling JSON"},
		"wrong type":        {"helm: {timeoutSeconds: soon}", "BundleDeploymentOptions.helm.timeoutSeconds of type int"},
		"aliases that grow": {"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + growing(), "too large"},
		"too many items":    {"a: [" + strings.Repeat("1,", 200_000) + "]", "too large"},
		"dependency without name and selector": {
			"dependsOn: [{name: a}, {}]", "validating fleet.yaml: dependsOn[1]: must specify either 'name' or 'selector'",
		},
		"dependency with an unknown state": {
			"dependsOn: [{selector: {}, acceptedStates: [Ready, Fine]}]",
			`dependsOn[0].acceptedStates[1]: invalid state "Fine", valid values are: [Ready NotReady Pending OutOfSync Modified WaitApplied ErrApplied]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseOptions([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// growing returns lists of aliases, each ten times as large as the one before.
func growing() string {
	var text strings.Builder
	for i := range 10 {
		from, to := string(rune('a'+i)), string(rune('b'+i))
		text.WriteString(to + ": &" + to + " [*" + from + strings.Repeat(",*"+from, 9) + "]\n")
	}
	return text.String()
}

func TestOptions_OnlyHubsSetInternalFields(t *testing.T) {
	doc, err := parseOptions([]byte(`
name: a
annotations: {kept: "yes"}
finalizers: [x]
resources: [{name: x, content: text}]
targetRestrictions: [{clusterName: x}]
contentsId: x
helmOpOptions: {helmopSecretName: x}
valuesHash: x
overwrites: [{kind: ConfigMap, name: x}]
allowedTargetNamespaceSelector: {matchLabels: {a: b}}
targets: [{name: t, overwrites: [{name: x}], allowedTargetNamespaceSelector: {matchLabels: {a: b}}}]
targetCustomizations: [{name: u, overwrites: [{name: x}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "t"}, {Name: "u"}}}
	if diff := cmp.Diff(want, doc.BundleSpec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if doc.Name != "a" || doc.Annotations["kept"] != "yes" {
		t.Errorf("name %q, annotations %v", doc.Name, doc.Annotations)
	}
}

func TestTargets_AreJoinedAndCompleted(t *testing.T) {
	doc, err := parseOptions([]byte(`
helm: {repo: r, chart: c, version: v}
targets: [{clusterName: a}]
targetCustomizations: [{name: named, helm: {version: own}}, {helm: {}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	helm := func(version string) fleet.BundleDeploymentOptions {
		return fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Repo: "r", Chart: "c", Version: version}}
	}
	want := []fleet.BundleTarget{
		{Name: "target000", ClusterName: "a"},
		{Name: "named", BundleDeploymentOptions: helm("own")},
		{Name: "target002", BundleDeploymentOptions: helm("v")},
	}
	if diff := cmp.Diff(want, doc.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

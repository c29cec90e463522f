package hub

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/crds"
)

const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// current returns the CRDs of this release by the path they are read from, each changed by change.
func current(t *testing.T, change func(*apiextensions.CustomResourceDefinition)) map[string][]any {
	t.Helper()
	embedded, err := crds.Embedded(charts.FS)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string][]any{groupPath: {everything()}}
	for _, crd := range embedded {
		change(&crd)
		answers[crdsPath+crd.Name] = []any{crd}
	}
	return answers
}

// with returns answers with another answer for one CRD.
func with(answers map[string][]any, plural string, answer ...any) map[string][]any {
	answers[crdsPath+plural+".fleet.cattle.io"] = answer
	return answers
}

// recorded returns a CRD of another release, installed by Helm.
func recorded(t *testing.T, plural string) apiextensions.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", "recorded", "crds", plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".fleet.cattle.io", Annotations: map[string]string{
		"meta.helm.sh/release-name": "fleet-crd", "meta.helm.sh/release-namespace": "cattle-fleet-system",
	}}}
	if err := yaml.Unmarshal(text, &crd.Spec); err != nil {
		t.Fatal(err)
	}
	return crd
}

// drop removes fields from the status schema of a CRD.
func drop(crd *apiextensions.CustomResourceDefinition, fields ...string) apiextensions.CustomResourceDefinition {
	old := crd.DeepCopy()
	status := old.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	for _, field := range fields {
		delete(status.Properties, field)
	}
	return *old
}

func TestCheck_ReportsFieldsMissingInCRDs(t *testing.T) {
	unchanged := func(*apiextensions.CustomResourceDefinition) {}
	newer := func(crd *apiextensions.CustomResourceDefinition) {
		for _, version := range crd.Spec.Versions {
			version.Schema.OpenAPIV3Schema.Properties["ofTomorrow"] = apiextensions.JSONSchemaProps{Type: "string"}
		}
	}
	cluster := func(t *testing.T, fields ...string) apiextensions.CustomResourceDefinition {
		answers := current(t, unchanged)[crdsPath+"clusters.fleet.cattle.io"]
		crd := answers[0].(apiextensions.CustomResourceDefinition)
		return drop(&crd, fields...)
	}
	tests := map[string]struct {
		answers map[string][]any
		says    string
		logs    string
	}{
		"CRDs of this release":    {answers: current(t, unchanged)},
		"CRDs of a later release": {answers: current(t, newer)},
		"a missing CRD":           {answers: with(current(t, unchanged), "contents", http.StatusNotFound)},
		"CRDs of another release without conditions of requests and tokens": {
			answers: with(with(current(t, unchanged), "clusterregistrations", recorded(t, "clusterregistrations")), "clusterregistrationtokens", recorded(t, "clusterregistrationtokens")),
			says: "the CustomResourceDefinitions are older than this controller, and the API server would drop what it writes to " +
				"clusterregistrations.fleet.cattle.io (status.conditions), clusterregistrationtokens.fleet.cattle.io (status.conditions, status.defaultTTL); " +
				"upgrade them with: helm upgrade fleet-crd charts/fleet-crd --namespace cattle-fleet-system",
		},
		"a CRD that Helm did not install": {
			answers: with(current(t, unchanged), "clusters", cluster(t, "agent")),
			says: "the CustomResourceDefinitions are older than this controller, and the API server would drop what it writes to " +
				"clusters.fleet.cattle.io (status.agent); upgrade them with: " +
				"helm upgrade --install fleet-crd charts/fleet-crd --namespace cattle-fleet-system --take-ownership",
		},
		"many fields": {
			answers: with(current(t, unchanged), "clusters", cluster(t, "agent", "namespace", "conditions", "summary", "display")),
			says: "the CustomResourceDefinitions are older than this controller, and the API server would drop what it writes to " +
				"clusters.fleet.cattle.io (status.agent, status.conditions, status.display and 2 more); ",
		},
		"a busy server": {answers: with(current(t, unchanged), "bundles", http.StatusServiceUnavailable, current(t, unchanged)[crdsPath+"bundles.fleet.cattle.io"][0])},
		"an account without the right to read CRDs": {
			answers: with(current(t, unchanged), "bundles", http.StatusForbidden), logs: "cannot check whether the CustomResourceDefinitions belong to this release",
		},
		"a rejected credential": {
			answers: with(current(t, unchanged), "bundles", http.StatusUnauthorized), says: "reading CustomResourceDefinition bundles.fleet.cattle.io: ",
		},
		"an answer that is not a CRD": {
			answers: with(current(t, unchanged), "bundles", "no object"), says: "reading CustomResourceDefinition bundles.fleet.cattle.io: ",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			_, err := Check(t.Context(), options(t, &server{answers: test.answers}, &log), time.Minute)
			switch {
			case test.says == "" && err != nil:
				t.Fatal(err)
			case test.says != "" && (err == nil || !strings.HasPrefix(err.Error(), test.says)):
				t.Errorf("it says\n\t%v\nand not\n\t%s", err, test.says)
			}
			if old := strings.Contains(test.says, "are older than"); old != errors.Is(err, ErrCRDsOutdated) {
				t.Errorf("ErrCRDsOutdated is %v of %v", !old, err)
			}
			if !strings.Contains(log.String(), test.logs) {
				t.Errorf("the log is %s", log.String())
			}
		})
	}
}

// TestCheck_ReadsEachCRDOnce counts the requests of a start.
func TestCheck_ReadsEachCRDOnce(t *testing.T) {
	s := &server{answers: current(t, func(*apiextensions.CustomResourceDefinition) {})}
	if _, err := Check(t.Context(), options(t, s, io.Discard), time.Minute); err != nil {
		t.Fatal(err)
	}
	asked := slices.DeleteFunc(s.asked, func(request string) bool { return !strings.HasPrefix(request, "GET "+crdsPath) })
	slices.Sort(asked)
	var want []string
	for name := range s.answers {
		if strings.HasPrefix(name, crdsPath) {
			want = append(want, "GET "+name)
		}
	}
	slices.Sort(want)
	if !slices.Equal(asked, want) || len(want) != 8 {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}

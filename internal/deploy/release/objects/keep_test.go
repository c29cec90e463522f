package objects

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/kube"

	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest/fake"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// sent updates the first object of a release, whose live state is given, and returns the body of the write request.
func sent(t *testing.T, c *Client, live string, force bool, release ...string) string {
	t.Helper()
	var target kube.ResourceList
	for _, text := range release {
		target = append(target, infoOf(t, text))
	}
	stored, err := json.Marshal(infoOf(t, live).Object)
	if err != nil {
		t.Fatal(err)
	}
	body := ""
	target[0].Client = &fake.RESTClient{
		NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
		Client: fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				text, err := io.ReadAll(r.Body)
				body = strings.TrimSpace(string(text))
				return answer(http.StatusOK, string(stored)), err
			}
			return answer(http.StatusOK, string(stored)), nil
		}),
	}
	if c.Only != nil {
		c.Only = map[manifest.Ref]bool{refOf(target[0]): true}
	} else {
		target = target[:1]
	}
	if _, err := c.Update(target, target, force); err != nil {
		t.Fatal(err)
	}
	return body
}

func TestCorrection_KeepsFieldsThatAreNotCompared(t *testing.T) {
	deployment := func(marks, spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: web" + marks + "}\nspec: " + spec + "\n"
	}
	const (
		hpa = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: web}\n" +
			"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, maxReplicas: 20}\n"
		marks = ", labels: {objectset.rio.cattle.io/hash: set}"
		all   = `{"metadata":{"labels":{"objectset.rio.cattle.io/hash":"set"}},"spec":{"replicas":2}}`
	)
	ignoring := func(pointers ...string) *fleet.DiffOptions {
		return &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{APIVersion: "apps/v1", Kind: "Deployment", JSONPointers: pointers}}}
	}
	wanted, scaled := deployment(marks, "{replicas: 2, paused: false}"), deployment(marks, "{replicas: 20, paused: true}")
	tests := map[string]struct {
		diff       *fleet.DiffOptions
		live       string
		release    []string
		force, all bool
		want       string
	}{
		"no rule: everything is corrected":            {nil, scaled, []string{wanted}, false, false, `{"spec":{"paused":false,"replicas":2}}`},
		"rule for the field":                          {ignoring("/spec/replicas"), scaled, []string{wanted}, false, false, `{"spec":{"paused":false}}`},
		"rule for the field, but no correction":       {ignoring("/spec/replicas"), scaled, []string{wanted}, false, true, `{"spec":{"paused":false,"replicas":2}}`},
		"autoscaler":                                  {nil, scaled, []string{wanted, hpa}, false, false, `{"spec":{"paused":false}}`},
		"autoscaler, replicas beyond its limits":      {nil, deployment(marks, "{replicas: 21}"), []string{deployment(marks, "{replicas: 2}"), hpa}, false, false, `{"spec":{"replicas":2}}`},
		"autoscaler, object is replaced":              {nil, scaled, []string{wanted, hpa}, true, false, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"objectset.rio.cattle.io/hash":"set"},"name":"a","namespace":"web"},"spec":{"paused":false,"replicas":20}}`},
		"autoscaler, replaced object has no replicas": {nil, scaled, []string{deployment(marks, "{paused: false}"), hpa}, true, false, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"objectset.rio.cattle.io/hash":"set"},"name":"a","namespace":"web"},"spec":{"paused":false,"replicas":20}}`},
		"rule for all labels: the mark is set anyway": {ignoring("/metadata/labels"), deployment("", "{replicas: 20}"), []string{deployment(marks, "{replicas: 2}")}, false, false, all},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := New(&access.Identity{}, placement.Release{Namespace: "web", Name: "x"}, nil)
			if c.Diff = test.diff; !test.all {
				c.Only = map[manifest.Ref]bool{}
			}
			if got := sent(t, c, test.live, test.force, test.release...); got != test.want {
				t.Errorf("sent %s, want %s", got, test.want)
			}
		})
	}
}

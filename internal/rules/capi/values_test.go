package capi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// parsedJSON parses a Cluster as an API server sends it.
func parsedJSON(t *testing.T, spec string) *capi.Cluster {
	t.Helper()
	object := &unstructured.Unstructured{}
	document := `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"namespace":"team-a","name":"east","uid":"u"},"spec":` + spec + `}`
	if err := object.UnmarshalJSON([]byte(document)); err != nil {
		t.Fatal(err)
	}
	return capi.Parse(object)
}

func TestParse_ReadsTheClass(t *testing.T) {
	for name, test := range map[string]struct{ spec, want string }{
		"v1beta2":                     {`{"topology":{"classRef":{"name":"small"}}}`, "small"},
		"v1beta2, of its own":         {`{"topology":{"classRef":{"name":"small","namespace":"team-a"}}}`, "small"},
		"v1beta2, another namespace":  {`{"topology":{"classRef":{"name":"small","namespace":"classes"}}}`, capi.ClassID("team-a", types.NamespacedName{Namespace: "classes", Name: "small"})},
		"v1beta1":                     {`{"topology":{"class":"small"}}`, "small"},
		"v1beta1, another namespace":  {`{"topology":{"class":"small","classNamespace":"classes"}}`, capi.ClassID("team-a", types.NamespacedName{Namespace: "classes", Name: "small"})},
		"without a topology":          {`{}`, ""},
		"an invalid name":             {`{"topology":{"class":"Small Class"}}`, ""},
		"an invalid namespace":        {`{"topology":{"class":"small","classNamespace":"a.b"}}`, ""},
		"a class of another type":     {`{"topology":{"classRef":["small"],"class":7}}`, ""},
		"the longest name is cut":     {`{"topology":{"class":"` + strings.Repeat("a", 253) + `"}}`, capi.ClassID("team-a", types.NamespacedName{Namespace: "team-a", Name: strings.Repeat("a", 253)})},
		"a name that is even longer":  {`{"topology":{"class":"` + strings.Repeat("a", 254) + `"}}`, ""},
		"a topology of another type ": {`{"topology":"small"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "class", parsedJSON(t, test.spec).Labels[fleet.LabelCAPIClass], test.want)
		})
	}
}

func TestClassID_IsUniqueAndAValidName(t *testing.T) {
	long := strings.Repeat("x", 100)
	ids := map[string]types.NamespacedName{}
	for _, class := range []types.NamespacedName{
		{Namespace: ws, Name: "small"}, {Namespace: "classes", Name: "small"}, {Namespace: ws, Name: "classes.small"}, {Namespace: "c", Name: "lasses.small"},
		{Namespace: ws, Name: long + "a"}, {Namespace: ws, Name: long + "b"}, {Namespace: "classes", Name: long + "a"}, {Namespace: "classes", Name: long + "b"},
		{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("y", 253)}, {Namespace: ws, Name: strings.Repeat("a.", 40) + "b"},
	} {
		id := capi.ClassID(ws, class)
		if other, taken := ids[id]; taken {
			t.Errorf("%s and %s have the ID %s", class, other, id)
		}
		ids[id] = class
		if len(validation.IsValidLabelValue(id)) > 0 || len(validation.IsDNS1123Subdomain(id)) > 0 {
			t.Errorf("%s: ID %q", class, id)
		}
	}
}

func TestParse_ReadsValues(t *testing.T) {
	c := parsedJSON(t, `{
		"topology":{"version":"v1.36.3","classRef":{"name":"small"},"variables":[
			{"name":"replicas","value":3},{"name":"zones","value":["a",null,"b"]},{"name":"image","value":{"tag":"1.0","digest":null}},
			{"name":"none","value":null},{"name":"ratio","value":0.5},{"name":"on","value":true},{"value":"nameless"},7]},
		"controlPlaneEndpoint":{"host":"east.example","port":6443},
		"clusterNetwork":{"pods":{"cidrBlocks":["10.0.0.0/16"]},"services":{"cidrBlocks":["10.1.0.0/16",7]},"serviceDomain":"cluster.local"}}`)
	want := map[string]any{
		"version": "v1.36.3", "class": map[string]any{"namespace": ws, "name": "small"},
		"endpoint": map[string]any{"host": "east.example", "port": int64(6443)},
		"networks": map[string]any{"pods": []any{"10.0.0.0/16"}, "services": []any{"10.1.0.0/16"}, "serviceDomain": "cluster.local"},
		"variables": map[string]any{
			"replicas": int64(3), "zones": []any{"a", "b"}, "image": map[string]any{"tag": "1.0"}, "ratio": 0.5, "on": true,
		},
	}
	if diff := cmp.Diff(want, c.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if c := parsedJSON(t, `{"topology":7,"controlPlaneEndpoint":{"host":7},"clusterNetwork":{"pods":[]}}`); len(c.Values) > 0 {
		t.Errorf("values %v", c.Values)
	}
}

func TestParse_BoundsValues(t *testing.T) {
	var variables, blocks []string
	for i := range 1000 {
		variables = append(variables, fmt.Sprintf(`{"name":"v%03d","value":"%s"}`, i, strings.Repeat("x", 100)))
		blocks = append(blocks, `"10.0.0.0/16"`)
	}
	c := parsedJSON(t, `{"topology":{"version":"`+strings.Repeat("v", 5000)+`","variables":[`+strings.Join(variables, ",")+`]},
		"controlPlaneEndpoint":{"host":"`+strings.Repeat("h", 5000)+`","port":1},"clusterNetwork":{"pods":{"cidrBlocks":[`+strings.Join(blocks, ",")+`]}}}`)
	document, err := json.Marshal(c.Values)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := c.Values["variables"].(map[string]any)
	if len(document) > 10<<10 || !c.VariablesLeftOut || len(found) < 50 || found["v000"] == nil || c.Values["version"] != nil || c.Values["endpoint"] != nil {
		t.Errorf("%d bytes, %d variables, left out: %t", len(document), len(found), c.VariablesLeftOut)
	}
}

func TestFollow_WritesValues(t *testing.T) {
	type data = map[string]any
	from := func(version string) *capi.Cluster {
		c := cluster()
		c.Values = data{"version": version, "variables": data{"a": int64(1)}}
		if version == "" {
			c.Values = data{}
		}
		return c
	}
	first := capi.NewCluster(from("v1"))
	for name, test := range map[string]struct {
		change func(*fleet.Cluster)
		to     string
		want   data
	}{
		"new values are written":                                   {func(*fleet.Cluster) {}, "v1", data{"capi": data{"version": "v1", "variables": data{"a": int64(1)}}}},
		"changed values are written":                               {func(*fleet.Cluster) {}, "v2", data{"capi": data{"version": "v2", "variables": data{"a": int64(1)}}}},
		"removed values are removed":                               {func(*fleet.Cluster) {}, "", data{}},
		"other values of users stay":                               {func(c *fleet.Cluster) { c.Spec.TemplateValues.Data["own"] = "x" }, "v2", data{"own": "x", "capi": data{"version": "v2", "variables": data{"a": int64(1)}}}},
		"value of a user under the same key stays":                 {func(c *fleet.Cluster) { c.Spec.TemplateValues.Data["capi"] = "mine" }, "v2", data{"capi": "mine"}},
		"values changed by a user stay":                            {func(c *fleet.Cluster) { c.Spec.TemplateValues.Data["capi"].(data)["version"] = "mine" }, "v2", data{"capi": data{"version": "mine", "variables": data{"a": int64(1)}}}},
		"removed values are written again":                         {func(c *fleet.Cluster) { c.Spec.TemplateValues = nil }, "v2", data{"capi": data{"version": "v2", "variables": data{"a": int64(1)}}}},
		"Cluster of an earlier release without values gets them":   {func(c *fleet.Cluster) { c.Spec.TemplateValues, c.Annotations = nil, nil }, "v1", data{"capi": data{"version": "v1", "variables": data{"a": int64(1)}}}},
		"values of a user in a Cluster of an earlier release stay": {func(c *fleet.Cluster) { c.Annotations = nil }, "v2", data{"capi": data{"version": "v1", "variables": data{"a": int64(1)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := first.DeepCopy()
			test.change(c)
			capi.Follow(c, from(test.to))
			// As the API server returns it.
			document, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			stored := &fleet.Cluster{}
			if err := json.Unmarshal(document, stored); err != nil {
				t.Fatal(err)
			}
			rulestest.ExpectEqual(t, "values", stored.Spec.TemplateValues.Data, test.want)
			again := stored.DeepCopy()
			capi.Follow(again, from(test.to))
			rulestest.ExpectEqual(t, "followed again", again, stored)
		})
	}
}

func TestDecideGroup(t *testing.T) {
	group := func(modifiers ...func(*fleet.ClusterGroup)) *fleet.ClusterGroup {
		return rulestest.Build(capi.NewGroup(ws, "small"), modifiers)
	}
	users := func(g *fleet.ClusterGroup) { g.Labels = nil }
	of := func(selector *metav1.LabelSelector) func(*fleet.ClusterGroup) {
		return func(g *fleet.ClusterGroup) { g.Spec.Selector = selector }
	}
	label := map[string]string{fleet.LabelCAPIClass: "small"}
	for name, test := range map[string]struct {
		inUse bool
		group *fleet.ClusterGroup
		want  capi.GroupStage
	}{
		"class in use, no group: created":                       {true, nil, capi.GroupMissing},
		"class without Clusters, no group: nothing":             {false, nil, capi.GroupFine},
		"unchanged group: nothing":                              {true, group(), capi.GroupFine},
		"last Cluster is gone: deleted":                         {false, group(), capi.GroupUnused},
		"last Cluster is gone, group is being deleted: nothing": {false, group(func(g *fleet.ClusterGroup) { g.DeletionTimestamp = rulestest.Ptr(rulestest.At(0)) }), capi.GroupFine},
		"group of a user: reported":                             {true, group(users, of(nil)), capi.GroupTaken},
		"group of a user, no Clusters: stays":                   {false, group(users), capi.GroupFine},
		"group with the mark of another class: stays":           {false, group(func(g *fleet.ClusterGroup) { g.Name = "copy" }), capi.GroupFine},
		"selector is missing: corrected":                        {true, group(of(nil)), capi.GroupChanged},
		"another selector: corrected":                           {true, group(of(&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}})), capi.GroupChanged},
		"selector with another label: corrected":                {true, group(of(&metav1.LabelSelector{MatchLabels: map[string]string{fleet.LabelCAPIClass: "small", "a": "b"}})), capi.GroupChanged},
		"selector with another expression: corrected":           {true, group(of(&metav1.LabelSelector{MatchLabels: label, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a"}}})), capi.GroupChanged},
		"changed group, no Clusters: deleted":                   {false, group(of(nil)), capi.GroupUnused},
	} {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "stage", capi.DecideGroup(test.inUse, test.group), test.want)
		})
	}
}

func TestClassOf_CountsOnlyClustersOfTheHub(t *testing.T) {
	c := capi.NewCluster(cluster())
	c.Labels[fleet.LabelCAPIClass] = "small"
	rulestest.ExpectEqual(t, "the hub's", capi.ClassOf(c), "small")
	users, gone := c.DeepCopy(), c.DeepCopy()
	users.Annotations = nil
	gone.DeletionTimestamp = rulestest.Ptr(rulestest.At(0))
	rulestest.ExpectEqual(t, "a user's", capi.ClassOf(users), "")
	rulestest.ExpectEqual(t, "one that is being deleted", capi.ClassOf(gone), "")
}

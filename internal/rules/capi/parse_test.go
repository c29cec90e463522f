package capi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func parsed(t *testing.T, document string) *capi.Cluster {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte("metadata: {namespace: team-a, name: east, uid: u}\n"+document), &object); err != nil {
		t.Fatal(err)
	}
	return capi.Parse(&unstructured.Unstructured{Object: object})
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		document string
		is       func(*capi.Cluster) bool
	}{
		"v1beta2, initialized":             {"status: {initialization: {controlPlaneInitialized: true}}", isInitialized},
		"v1beta1, ready":                   {"status: {controlPlaneReady: true}", isInitialized},
		"the condition of either":          {"status: {conditions: [{type: Ready, status: 'True'}, {type: ControlPlaneInitialized, status: 'True'}]}", isInitialized},
		"the condition is False":           {"status: {conditions: [{type: ControlPlaneInitialized, status: 'False'}]}", not(isInitialized)},
		"no status":                        {"", not(isInitialized)},
		"text instead of a boolean":        {"status: {initialization: {controlPlaneInitialized: 'true'}}", not(isInitialized)},
		"a status of another type":         {"status: [a]\nspec: 7", not(isInitialized)},
		"conditions of another type":       {"status: {conditions: [7, {type: [a]}]}", not(isInitialized)},
		"v1beta2, control plane":           {"spec: {controlPlaneRef: {apiGroup: g.io, kind: K, name: cp}}", controlPlaneIs("g.io", "K", "cp")},
		"v1beta1, control plane":           {"spec: {controlPlaneRef: {apiVersion: g.io/v1, kind: K, name: cp, namespace: other}}", controlPlaneIs("g.io", "K", "cp")},
		"no control plane":                 {"spec: {}", controlPlaneIs("", "", "")},
		"a control plane of numbers":       {"spec: {controlPlaneRef: {apiGroup: 1, kind: 2, name: 3}}", controlPlaneIs("", "", "")},
		"a control plane that is too long": {"spec: {controlPlaneRef: {apiGroup: " + strings.Repeat("g", 1000) + ", kind: K, name: n}}", controlPlaneIs("", "", "")},
		"paused":                           {"spec: {paused: true}", func(c *capi.Cluster) bool { return c.Paused }},
		"not paused":                       {"spec: {paused: false}", func(c *capi.Cluster) bool { return !c.Paused }},
	} {
		t.Run(name, func(t *testing.T) {
			if c := parsed(t, test.document); !test.is(c) || c.Name != "east" || c.Namespace != "team-a" || c.UID != "u" {
				t.Errorf("parsed as %+v", c)
			}
		})
	}
}

func isInitialized(c *capi.Cluster) bool { return c.Initialized }

func not(is func(*capi.Cluster) bool) func(*capi.Cluster) bool {
	return func(c *capi.Cluster) bool { return !is(c) }
}

func controlPlaneIs(group, kind, name string) func(*capi.Cluster) bool {
	return func(c *capi.Cluster) bool {
		return c.ControlPlane == capi.Reference{Group: group, Kind: kind, Name: name}
	}
}

func object(labels, annotations map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetNamespace("team-a")
	o.SetName("east")
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return o
}

func TestParse_ReadsAnnotations(t *testing.T) {
	if c := capi.Parse(object(nil, map[string]string{"cluster.x-k8s.io/paused": "", "other": "x"})); !c.Paused || c.ForMove || c.Annotations != nil {
		t.Errorf("parsed as %+v", c)
	}
	if c := capi.Parse(object(nil, map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""})); c.Paused || !c.ForMove {
		t.Errorf("parsed as %+v", c)
	}
}

func TestParse_CopiesNoLabelsOfFleet(t *testing.T) {
	c := capi.Parse(object(map[string]string{
		"env": "dev", "fleet.cattle.io/cluster-management": "x", "management.cattle.io/cluster-name": "x", "bad key": "x", "bad": "a b", "topology.cluster.x-k8s.io/owned": "",
	}, nil))
	rulestest.ExpectEqual(t, "labels", c.Labels, map[string]string{"env": "dev", "topology.cluster.x-k8s.io/owned": ""})
	rulestest.ExpectEqual(t, "left out", c.LabelsLeftOut, false)
}

// Argo CD, Flux and kapp delete what has their label and is not in their source.
func TestParse_CopiesNoLabelsOfTools(t *testing.T) {
	all := map[string]string{"app.kubernetes.io/name": "east"}
	for _, key := range []string{
		"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name",
		"helm.toolkit.fluxcd.io/namespace", "kapp.k14s.io/app", "objectset.rio.cattle.io/hash",
	} {
		all[key] = "x"
	}
	c := capi.Parse(object(all, nil))
	rulestest.ExpectEqual(t, "labels", c.Labels, map[string]string{"app.kubernetes.io/name": "east"})
	rulestest.ExpectEqual(t, "for the selector", c.Selectable, all)
	before := capi.NewCluster(&capi.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "east", Labels: all}})
	capi.Follow(before, c)
	rulestest.ExpectEqual(t, "after an upgrade", before.Labels, map[string]string{"app.kubernetes.io/name": "east"})
}

func TestParse_BoundsLabels(t *testing.T) {
	many := map[string]string{}
	for i := range 10_000 {
		many[fmt.Sprintf("l%05d", i)] = "x"
	}
	c := capi.Parse(object(many, nil))
	if len(c.Labels) != 64 || c.Labels["l00063"] == "" || !c.LabelsLeftOut || len(c.Selectable) != 128 {
		t.Errorf("%d labels, %d selectable, left out: %t", len(c.Labels), len(c.Selectable), c.LabelsLeftOut)
	}
}

func TestReadSecret(t *testing.T) {
	owners := make([]metav1.OwnerReference, 1000)
	for i := range owners {
		owners[i] = metav1.OwnerReference{APIVersion: "g.io/v1", Kind: "K", Name: fmt.Sprint(i), UID: "u"}
	}
	got := capi.ReadSecret(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "east"}, OwnerReferences: owners},
		Type:       "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": []byte("kubeconfig")},
	}, capi.Validity{})
	if len(got.Owners) != 16 || (got.Owners[1] != capi.Owner{Reference: capi.Reference{Group: "g.io", Kind: "K", Name: "1"}, UID: "u"}) {
		t.Errorf("owners: %v", got.Owners)
	}
	got.Owners = nil
	rulestest.ExpectEqual(t, "Secret", got, capi.Secret{Exists: true, HasKubeconfig: true, Type: "cluster.x-k8s.io/secret", Cluster: "east"})
	rulestest.ExpectEqual(t, "no Secret", capi.ReadSecret(nil, capi.Validity{}), capi.Secret{})
	rulestest.ExpectEqual(t, "one that is being deleted", capi.ReadSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: rulestest.Ptr(rulestest.At(0))}}, capi.Validity{}), capi.Secret{})
}

func TestClusterOfSecret(t *testing.T) {
	for secret, want := range map[string]string{"east-kubeconfig": "east", "a-kubeconfig-kubeconfig": "a-kubeconfig", "east": "", "-kubeconfig": "", "": ""} {
		rulestest.ExpectEqual(t, secret, capi.ClusterOfSecret(secret), want)
	}
	rulestest.ExpectEqual(t, "and back", capi.ClusterOfSecret(capi.SecretName("east")), "east")
}

// FuzzParse parses any JSON object without a panic, and never returns more than its limits.
func FuzzParse(f *testing.F) {
	f.Add(`{"metadata":{"name":"east","labels":{"a":"b"},"annotations":{"cluster.x-k8s.io/paused":""}},"spec":{"paused":true,"controlPlaneRef":{"apiGroup":"g","kind":"K","name":"n"}},"status":{"conditions":[{"type":"ControlPlaneInitialized","status":"True"}],"initialization":{"controlPlaneInitialized":true}}}`)
	f.Add(`{"metadata":{"namespace":"a","name":"b"},"spec":{"topology":{"classRef":{"name":"c","namespace":"d"},"version":"v1","variables":[{"name":"x","value":{"y":[1,null]}}]},"controlPlaneEndpoint":{"host":"h","port":1},"clusterNetwork":{"pods":{"cidrBlocks":["10.0.0.0/8"]}}}}`)
	f.Add(`{"metadata":{"labels":7,"ownerReferences":"x"},"spec":[],"status":{"conditions":{}}}`)
	f.Fuzz(func(t *testing.T, document string) {
		content := map[string]any{}
		if json.Unmarshal([]byte(document), &content) != nil {
			return
		}
		c := capi.Parse(&unstructured.Unstructured{Object: content})
		values, err := json.Marshal(c.Values)
		if err != nil || len(values) > 32<<10 {
			t.Errorf("%d bytes of values, error %v", len(values), err)
		}
		if class := c.Labels[fleet.LabelCAPIClass]; len(validation.IsValidLabelValue(class)) > 0 {
			t.Errorf("class %q", class)
		}
		if len(c.Labels) > 65 || len(c.Selectable) > 128 || len(c.Annotations) > 0 {
			t.Errorf("not bounded: %+v", c)
		}
	})
}

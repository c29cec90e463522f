package targeting

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Each row is a kind of option and how it is laid over another, as JSON.
func TestMerge(t *testing.T) {
	tests := map[string]struct{ base, overlay, want string }{
		"nothing over nothing":          {`{}`, `{}`, `{}`},
		"nothing changes nothing":       {`{"defaultNamespace":"a","helm":{"chart":"c"}}`, `{}`, `{"defaultNamespace":"a","helm":{"chart":"c"}}`},
		"defaultNamespace":              {`{"defaultNamespace":"a"}`, `{"defaultNamespace":"b"}`, `{"defaultNamespace":"b"}`},
		"namespace":                     {`{"namespace":"a"}`, `{"namespace":"b"}`, `{"namespace":"b"}`},
		"serviceAccount":                {`{"serviceAccount":"a"}`, `{"serviceAccount":"b"}`, `{"serviceAccount":"b"}`},
		"an empty helm object":          {`{}`, `{"helm":{}}`, `{"helm":{}}`},
		"a timeout":                     {`{"helm":{"timeoutSeconds":5}}`, `{"helm":{"timeoutSeconds":7}}`, `{"helm":{"timeoutSeconds":7}}`},
		"no timeout keeps the base's":   {`{"helm":{"timeoutSeconds":5}}`, `{"helm":{}}`, `{"helm":{"timeoutSeconds":5}}`},
		"a negative timeout removes it": {`{"helm":{"timeoutSeconds":5}}`, `{"helm":{"timeoutSeconds":-1}}`, `{"helm":{}}`},
		"values over none":              {`{}`, `{"helm":{"values":{"a":1}}}`, `{"helm":{"values":{"a":1}}}`},
		"no values over some":           {`{"helm":{"values":{"a":1}}}`, `{"helm":{}}`, `{"helm":{"values":{"a":1}}}`},
		"values are merged deeply":      {`{"helm":{"values":{"a":{"b":1,"c":2},"d":3}}}`, `{"helm":{"values":{"a":{"c":4,"e":5}}}}`, `{"helm":{"values":{"a":{"b":1,"c":4,"e":5},"d":3}}}`},
		"lists are replaced":            {`{"helm":{"values":{"a":[1,2,3]}}}`, `{"helm":{"values":{"a":[4]}}}`, `{"helm":{"values":{"a":[4]}}}`},
		"an object replaces a text":     {`{"helm":{"values":{"a":"x"}}}`, `{"helm":{"values":{"a":{"b":1}}}}`, `{"helm":{"values":{"a":{"b":1}}}}`},
		"null replaces an object":       {`{"helm":{"values":{"a":{"b":1}}}}`, `{"helm":{"values":{"a":null}}}`, `{"helm":{"values":{"a":null}}}`},
		"templateValues over none":      {`{}`, `{"helm":{"templateValues":{"a":"1"}}}`, `{"helm":{"templateValues":{"a":"1"}}}`},
		"templateValues by key":         {`{"helm":{"templateValues":{"a":"1","b":"2"}}}`, `{"helm":{"templateValues":{"b":"3"}}}`, `{"helm":{"templateValues":{"a":"1","b":"3"}}}`},
		"valuesFrom are added": {
			`{"helm":{"valuesFrom":[{"secretKeyRef":{"name":"a"}}]}}`, `{"helm":{"valuesFrom":[{"configMapKeyRef":{"name":"a"}}]}}`,
			`{"helm":{"valuesFrom":[{"secretKeyRef":{"name":"a"}},{"configMapKeyRef":{"name":"a"}}]}}`,
		},
		"the same valuesFrom keeps its place": {
			`{"helm":{"valuesFrom":[{"secretKeyRef":{"name":"a","key":"k"}},{"secretKeyRef":{"name":"b"}}]}}`, `{"helm":{"valuesFrom":[{"secretKeyRef":{"name":"a","key":"k"}}]}}`,
			`{"helm":{"valuesFrom":[{"secretKeyRef":{"name":"a","key":"k"}},{"secretKeyRef":{"name":"b"}}]}}`,
		},
		"empty valuesFrom are never equal": {
			`{"helm":{"valuesFrom":[{}]}}`, `{"helm":{"valuesFrom":[{}]}}`, `{"helm":{"valuesFrom":[{},{}]}}`,
		},
		"texts of helm": {
			`{"helm":{"chart":"a","repo":"a","releaseName":"a","version":"a"}}`, `{"helm":{"chart":"b","repo":"b","releaseName":"b","version":"b"}}`,
			`{"helm":{"chart":"b","repo":"b","releaseName":"b","version":"b"}}`,
		},
		"switches of helm can only be turned on": {
			`{"helm":{"force":true,"takeOwnership":true,"waitForJobs":true}}`, `{"helm":{"atomic":true,"disablePreProcess":true,"disableDNS":true}}`,
			`{"helm":{"force":true,"takeOwnership":true,"waitForJobs":true,"atomic":true,"disablePreProcess":true,"disableDNS":true}}`,
		},
		"fields of helm that only the base sets": {
			`{"helm":{"chart":"c"}}`, `{"helm":{"valuesFiles":["v"],"maxHistory":3,"skipSchemaValidation":true,"disableDependencyUpdate":true}}`, `{"helm":{"chart":"c"}}`,
		},
		"kustomize":              {`{"kustomize":{"dir":"a"}}`, `{"kustomize":{"dir":"b"}}`, `{"kustomize":{"dir":"b"}}`},
		"kustomize over none":    {`{}`, `{"kustomize":{"dir":"b"}}`, `{"kustomize":{"dir":"b"}}`},
		"an empty kustomize dir": {`{"kustomize":{"dir":"a"}}`, `{"kustomize":{}}`, `{"kustomize":{"dir":"a"}}`},
		"comparePatches are added, the same one is replaced": {
			`{"diff":{"comparePatches":[{"kind":"A","jsonPointers":["/a"]},{"kind":"B"}]}}`, `{"diff":{"comparePatches":[{"kind":"A","jsonPointers":["/b"]},{"kind":"A","name":"n"}]}}`,
			`{"diff":{"comparePatches":[{"kind":"A","jsonPointers":["/b"]},{"kind":"B"},{"kind":"A","name":"n"}]}}`,
		},
		"keys that occur twice in the overlay: the first counts": {
			`{"downstreamResources":[{"kind":"Secret","name":"a"}],"diff":{"comparePatches":[{"kind":"A"}]}}`,
			`{"downstreamResources":[{"kind":"secret","name":"a"},{"kind":"SECRET","name":"a"}],"diff":{"comparePatches":[{"kind":"A","jsonPointers":["/1"]},{"kind":"A","jsonPointers":["/2"]},{"kind":"B","jsonPointers":["/1"]},{"kind":"B","jsonPointers":["/2"]}]}}`,
			`{"downstreamResources":[{"kind":"secret","name":"a"}],"diff":{"comparePatches":[{"kind":"A","jsonPointers":["/1"]},{"kind":"B","jsonPointers":["/1"]}]}}`,
		},
		"a diff over none":               {`{}`, `{"diff":{"comparePatches":[{"kind":"A"}]}}`, `{"diff":{"comparePatches":[{"kind":"A"}]}}`},
		"overlays are appended":          {`{"yaml":{"overlays":["a"]}}`, `{"yaml":{"overlays":["a","b"]}}`, `{"yaml":{"overlays":["a","a","b"]}}`},
		"overlays over none":             {`{}`, `{"yaml":{"overlays":["a"]}}`, `{"yaml":{"overlays":["a"]}}`},
		"forceSyncGeneration":            {`{"forceSyncGeneration":5}`, `{"forceSyncGeneration":3}`, `{"forceSyncGeneration":3}`},
		"no forceSyncGeneration":         {`{"forceSyncGeneration":5}`, `{"forceSyncGeneration":-1}`, `{"forceSyncGeneration":5}`},
		"keepResources":                  {`{}`, `{"keepResources":true}`, `{"keepResources":true}`},
		"keepResources stays":            {`{"keepResources":true}`, `{}`, `{"keepResources":true}`},
		"correctDrift":                   {`{"correctDrift":{"enabled":true,"force":true}}`, `{"correctDrift":{}}`, `{"correctDrift":{}}`},
		"downstreamResources":            {`{"downstreamResources":[{"kind":"Secret","name":"a"}]}`, `{"downstreamResources":[{"kind":"secret","name":"a"},{"kind":"ConfigMap","name":"a"}]}`, `{"downstreamResources":[{"kind":"secret","name":"a"},{"kind":"ConfigMap","name":"a"}]}`},
		"fields that only the base sets": {`{}`, `{"createNamespace":false,"deleteNamespace":true,"ignore":{},"namespaceLabels":{"a":"b"},"namespaceAnnotations":{"a":"b"},"deleteCRDResources":true,"overwrites":[{"name":"a"}],"allowedTargetNamespaceSelector":{}}`, `{}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			base, overlay := targetingtest.Options(t, test.base), targetingtest.Options(t, test.overlay)
			got := Merge(base, overlay)
			if diff := cmp.Diff(targetingtest.Options(t, test.want), got); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(targetingtest.Options(t, test.base), base); diff != "" {
				t.Errorf("the base was changed:\n%s", diff)
			}
			if diff := cmp.Diff(targetingtest.Options(t, test.overlay), overlay); diff != "" {
				t.Errorf("the overlay was changed:\n%s", diff)
			}
		})
	}
}

// Both inputs are in caches, so a change of the result must not reach them.
func TestMerge_SharesNoMemoryWithItsInput(t *testing.T) {
	const text = `{"yaml":{"overlays":["a"]},"helm":{"values":{"a":{"b":1},"c":[{"d":1}]},"templateValues":{"a":"1"},"valuesFrom":[{"secretKeyRef":{"name":"a"}}]},
		"diff":{"comparePatches":[{"kind":"A"}]},"downstreamResources":[{"kind":"Secret","name":"a"}],"namespaceLabels":{"a":"b"},"correctDrift":{}}`
	base, overlay := targetingtest.Options(t, text), targetingtest.Options(t, text)
	got := Merge(base, overlay)
	got.YAML.Overlays[0] = "changed"
	got.Helm.Values.Data["a"].(map[string]any)["b"] = "changed"
	got.Helm.Values.Data["c"].([]any)[0].(map[string]any)["d"] = "changed"
	got.Helm.TemplateValues["a"] = "changed"
	got.Helm.ValuesFrom[0].SecretKeyRef.Name = "changed"
	got.Diff.ComparePatches[0].Kind = "changed"
	got.DownstreamResources[0].Name = "changed"
	got.NamespaceLabels["a"] = "changed"
	got.CorrectDrift.Enabled = true
	for name, input := range map[string]fleet.BundleDeploymentOptions{"base": base, "overlay": overlay} {
		if diff := cmp.Diff(targetingtest.Options(t, text), input); diff != "" {
			t.Errorf("the %s was changed:\n%s", name, diff)
		}
	}
}

func TestDeploymentID(t *testing.T) {
	plain := targetingtest.Options(t, `{"defaultNamespace":"ns","helm":{"values":{"a":1}},"keepResources":true}`)
	vector := "s-1:f7707c92b8af72b2cbcda0cb3b72eb59845164574625ed29695c152db2bbd3c6"
	changed := func(change func(*fleet.BundleDeploymentOptions)) fleet.BundleDeploymentOptions {
		out := *plain.DeepCopy()
		change(&out)
		return out
	}
	tests := map[string]struct {
		manifest string
		in       fleet.BundleDeploymentOptions
		want     string
		differs  bool
	}{
		"the contract's vector for an empty helm": {"s-1", targetingtest.Options(t, `{"helm":{}}`), "s-1:2b3eb1c0044dd55963b580c402f9703533c40396e53a2aa27a2ba991ec15d145", false},
		"the contract's vector with values":       {"s-1", plain, vector, false},
		"without a manifest it begins with the colon": {
			"", targetingtest.Options(t, `{"helm":{}}`), ":2b3eb1c0044dd55963b580c402f9703533c40396e53a2aa27a2ba991ec15d145", false,
		},
		"diff is not part of it": {"s-1", changed(func(o *fleet.BundleDeploymentOptions) {
			o.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "A"}}}
		}), vector, false},
		"correctDrift is not part of it":       {"s-1", changed(func(o *fleet.BundleDeploymentOptions) { o.CorrectDrift = &fleet.CorrectDrift{Enabled: true} }), vector, false},
		"a value is part of it":                {"s-1", changed(func(o *fleet.BundleDeploymentOptions) { o.Helm.Values.Data["a"] = int64(2) }), vector, true},
		"forceSyncGeneration is part of it":    {"s-1", changed(func(o *fleet.BundleDeploymentOptions) { o.ForceSyncGeneration = 1 }), vector, true},
		"the namespace selector is part of it": {"s-1", changed(func(o *fleet.BundleDeploymentOptions) { o.AllowedTargetNamespaceSelector = &metav1.LabelSelector{} }), vector, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DeploymentID(test.manifest, test.in)
			if err != nil {
				t.Fatal(err)
			}
			if (got == test.want) == test.differs {
				t.Errorf("ID = %s, want %s (different: %v)", got, test.want, test.differs)
			}
		})
	}
}

func TestDeploymentID_UnencodableValueIsAnError(t *testing.T) {
	in := fleet.BundleDeploymentOptions{Helm: targetingtest.Helm("a", func() {})}
	if id, err := DeploymentID("s-1", in); err == nil {
		t.Errorf("ID = %s, want an error", id)
	}
}

// Each field of a target that Merge does not change is listed, except for those that other code handles.
func TestRootOnly_AreTheKeysThatMergeIgnores(t *testing.T) {
	elsewhere := []string{
		"namespaceLabels", "namespaceAnnotations", // merged for the namespace of the release
		"helm.valuesFiles",                             // merged into the values
		"overwrites", "allowedTargetNamespaceSelector", // not read from a fleet.yaml
	}
	var ignored []string
	check := func(prefix string, kind reflect.Type, options func(field int) fleet.BundleDeploymentOptions) {
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			base := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{}}
			if key := prefix + name; key != "helm" && !slices.Contains(elsewhere, key) && reflect.DeepEqual(Merge(base, options(i)), base) {
				ignored = append(ignored, key)
			}
		}
	}
	check("", reflect.TypeFor[fleet.BundleDeploymentOptions](), func(field int) fleet.BundleDeploymentOptions {
		var options fleet.BundleDeploymentOptions
		fill(reflect.ValueOf(&options).Elem().Field(field))
		return options
	})
	check("helm.", reflect.TypeFor[fleet.HelmOptions](), func(field int) fleet.BundleDeploymentOptions {
		options := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{}}
		fill(reflect.ValueOf(options.Helm).Elem().Field(field))
		return options
	})
	want := RootOnly()
	slices.Sort(want)
	slices.Sort(ignored)
	if !slices.Equal(ignored, want) {
		t.Errorf("ignored %q, want %q", ignored, want)
	}
}

// fill sets a field to a value that is not empty.
func fill(field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString("x")
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int, reflect.Int64:
		field.SetInt(3)
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(field.Type().Elem()))
	}
}

package v1alpha1_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestJSONFields_KeepTheirOrder pins the order of all fields that are part of a hash: deployment IDs, names of Contents and
// hashes of agent settings. A change would redeploy every Bundle on every cluster.
func TestJSONFields_KeepTheirOrder(t *testing.T) {
	tests := map[string]any{
		"order-bundledeploymentoptions":      &fleet.BundleDeploymentOptions{},
		"order-bundleresource":               &fleet.BundleResource{},
		"order-agentschedulingcustomization": &fleet.AgentSchedulingCustomization{},
	}
	for name, object := range tests {
		t.Run(name, func(t *testing.T) {
			fill(reflect.ValueOf(object).Elem())
			text, err := json.MarshalIndent(object, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Expect(t, name+".golden", string(text)+"\n")
		})
	}
}

func TestEmptyOptions_EncodeAsEmptyObject(t *testing.T) {
	tests := map[string]any{
		"options":       fleet.BundleDeploymentOptions{},
		"helm":          fleet.HelmOptions{},
		"a file":        fleet.BundleResource{},
		"an overlay":    fleet.YAMLOptions{},
		"a kustomize":   fleet.KustomizeOptions{},
		"a diff":        fleet.DiffOptions{},
		"drift":         fleet.CorrectDrift{},
		"a target":      fleet.BundleTarget{},
		"a restriction": fleet.BundleTargetRestriction{},
		"a rollout":     fleet.RolloutStrategy{},
		"a partition":   fleet.Partition{},
	}
	for name, object := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != "{}" {
				t.Errorf("got %s", text)
			}
		})
	}
}

func TestOptions_HaveTheRecordedHashes(t *testing.T) {
	values := func(data map[string]any) *fleet.HelmOptions {
		return &fleet.HelmOptions{Values: &fleet.GenericMap{Data: data}}
	}
	tests := map[string]struct {
		options fleet.BundleDeploymentOptions
		want    string
	}{
		"only an empty helm": {
			fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{}},
			"2b3eb1c0044dd55963b580c402f9703533c40396e53a2aa27a2ba991ec15d145",
		},
		"values between a namespace and a flag": {
			fleet.BundleDeploymentOptions{DefaultNamespace: "ns", Helm: values(map[string]any{"a": int64(1)}), KeepResources: true},
			"f7707c92b8af72b2cbcda0cb3b72eb59845164574625ed29695c152db2bbd3c6",
		},
		"the recorded agent bundle, on a cluster with labels": {
			fleet.BundleDeploymentOptions{DefaultNamespace: "cattle-fleet-system", Helm: &fleet.HelmOptions{TakeOwnership: true, Values: &fleet.GenericMap{Data: map[string]any{}}}},
			"01fd67cf824154b36ddb0866059a1a2177377764125dfe1b4509d8b5bcedb298",
		},
		"the recorded bundle hello on east": {
			fleet.BundleDeploymentOptions{DefaultNamespace: "hello", Helm: values(map[string]any{"greeting": "hi", "cluster": "east"})},
			"69c8bf0d3444a636f402cda4b466de5609b2dad89053ed3e222eefbb4ab234ee",
		},
		"the recorded bundle hello on west, customised": {
			fleet.BundleDeploymentOptions{DefaultNamespace: "hello", Helm: values(map[string]any{"greeting": "bonjour", "cluster": "cluster-3f8a81b9896a"})},
			"3559c925f28d338461929875ac20b7bfa6ddb795dec0d618ebd81b451a4599fa",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			if err := json.NewEncoder(&text).Encode(test.options); err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(text.Bytes())
			if got := hex.EncodeToString(sum[:]); got != test.want {
				t.Errorf("%s\ngot  %s\nwant %s", text.String(), got, test.want)
			}
		})
	}
}

func TestBundleTarget_EncodesItsOwnNamespaceLabels(t *testing.T) {
	tests := map[string]struct {
		target fleet.BundleTarget
		want   string
	}{
		"labels of the target: encoded": {
			fleet.BundleTarget{NamespaceLabels: map[string]string{"a": "target"}},
			`{"namespaceLabels":{"a":"target"}}`,
		},
		"labels and annotations of its options: not encoded": {
			fleet.BundleTarget{BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				NamespaceLabels: map[string]string{"a": "options"}, NamespaceAnnotations: map[string]string{"b": "options"},
			}},
			`{}`,
		},
		"annotations of both: only those of the target": {
			fleet.BundleTarget{
				BundleDeploymentOptions: fleet.BundleDeploymentOptions{NamespaceAnnotations: map[string]string{"b": "options"}},
				NamespaceAnnotations:    map[string]string{"c": "target"},
			},
			`{"namespaceAnnotations":{"c":"target"}}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(test.target)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != test.want {
				t.Errorf("got %s, want %s", text, test.want)
			}
			var read fleet.BundleTarget
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			if read.BundleDeploymentOptions.NamespaceLabels != nil || read.BundleDeploymentOptions.NamespaceAnnotations != nil {
				t.Errorf("read into the options: %+v", read.BundleDeploymentOptions)
			}
		})
	}
}

func TestZeroValues_AreEncodedWhereRequired(t *testing.T) {
	tests := map[string]struct {
		object any
		want   string
	}{
		"agent without a heartbeat":         {fleet.AgentStatus{}, `{"lastSeen":null,"namespace":""}`},
		"empty summary":                     {fleet.BundleSummary{}, `{"ready":0,"desiredReady":0}`},
		"empty counts":                      {fleet.ResourceCounts{}, `{"ready":0,"desiredReady":0,"waitApplied":0,"modified":0,"orphaned":0,"missing":0,"unknown":0,"notReady":0}`},
		"a reference to values":             {fleet.ValuesKeyRef{}, `{"name":""}`},
		"nil values":                        {fleet.HelmOptions{Values: nil}, `{}`},
		"values without data":               {fleet.HelmOptions{Values: &fleet.GenericMap{}}, `{"values":null}`},
		"values with an empty object":       {fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{}}}, `{"values":{}}`},
		"explicitly empty pull secrets":     {fleet.ClusterSpec{AgentPullSecrets: &[]corev1.LocalObjectReference{}}, `{"agentPullSecrets":[]}`},
		"empty selector, which matches all": {fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}}, `{"clusterSelector":{}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(test.object)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

// fill sets every field to something that is written, down to one element of
// every list and map.
func fill(value reflect.Value) {
	if values, ok := value.Addr().Interface().(*fleet.GenericMap); ok {
		values.Data = map[string]any{"b": "x", "a": int64(1)}
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			fill(value.Field(i))
		}
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem())
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0))
	case reflect.Map:
		element := reflect.New(value.Type().Elem()).Elem()
		fill(element)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(reflect.ValueOf("key").Convert(value.Type().Key()), element)
	case reflect.String:
		value.SetString(strings.ToLower(value.Type().Name()))
	case reflect.Bool:
		value.SetBool(true)
	default:
		value.SetInt(1)
	}
}

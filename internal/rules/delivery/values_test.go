package delivery

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestTakeValues(t *testing.T) {
	tests := map[string]struct{ in, left, taken string }{
		"no helm":              {`{}`, `{}`, ""},
		"no values":            {`{"helm":{"chart":"c"}}`, `{"helm":{"chart":"c"}}`, ""},
		"null values":          {`{"helm":{"values":null}}`, `{"helm":{}}`, ""},
		"empty values":         {`{"helm":{"values":{}}}`, `{"helm":{}}`, ""},
		"values":               {`{"helm":{"chart":"c","values":{"key":"value"}}}`, `{"helm":{"chart":"c"}}`, `{"key":"value"}`},
		"values that escape":   {`{"helm":{"values":{"b":"<&>","a":1}}}`, `{"helm":{}}`, `{"a":1,"b":"\u003c\u0026\u003e"}`},
		"templateValues stay ": {`{"helm":{"values":{"a":1},"templateValues":{"a":"1"}}}`, `{"helm":{"templateValues":{"a":"1"}}}`, `{"a":1}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := targetingtest.Options(t, test.in)
			helm := in.Helm
			got, err := TakeValues(&in)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.taken {
				t.Errorf("values = %s, want %s", got, test.taken)
			}
			if diff := cmp.Diff(targetingtest.Options(t, test.left), in); diff != "" {
				t.Errorf("options left (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(targetingtest.Options(t, test.in).Helm, helm); diff != "" {
				t.Errorf("options somebody else may hold were changed:\n%s", diff)
			}
		})
	}
}

func TestTakeValues_FailsForValuesThatAreNotJSON(t *testing.T) {
	in := fleet.BundleDeploymentOptions{Helm: targetingtest.Helm("a", func() {})}
	if _, err := TakeValues(&in); err == nil {
		t.Error("no error")
	}
}

// The hashes are test vectors of the contract.
func TestValues(t *testing.T) {
	tests := map[string]struct {
		in   Values
		hash string
	}{
		"none":            {Values{}, ""},
		"empty":           {Values{Current: []byte{}, Staged: []byte{}}, ""},
		"only current":    {Values{Current: []byte(`{"key":"value"}`)}, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32"},
		"only staged":     {Values{Staged: []byte(`{"key":"value"}`)}, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32"},
		"both, and other": {Values{Current: []byte(`{"key":"value"}`), Staged: []byte(`{"newkey":"value"}`)}, "01c44d8a446abccb870503db292e07cb2b8da135b6fec52b21048bdab8c84a7c"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.in.Hash(); got != test.hash {
				t.Errorf("hash = %s, want %s", got, test.hash)
			}
			if got := test.in.Empty(); got != (test.hash == "") {
				t.Errorf("empty = %v", got)
			}
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
			if diff := cmp.Diff(test.in, ReadValues(test.in.Secret(bd))); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValuesSecret(t *testing.T) {
	values := Values{Current: []byte("c"), Staged: []byte("s")}
	yes := true
	secret := func(owners ...metav1.OwnerReference) *corev1.Secret {
		return &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", OwnerReferences: owners},
			Type:       "fleet.cattle.io/bundle-deployment/v1alpha1",
			Data:       map[string][]byte{"values": []byte("c"), "stagedValues": []byte("s")},
		}
	}
	tests := map[string]struct {
		uid  types.UID
		want *corev1.Secret
	}{
		"of a new BundleDeployment": {"", secret()},
		"of an existing BundleDeployment": {"u", secret(metav1.OwnerReference{
			APIVersion: "fleet.cattle.io/v1alpha1", Kind: "BundleDeployment", Name: "web", UID: "u", Controller: &yes, BlockOwnerDeletion: &yes,
		})},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: test.uid}}
			if diff := cmp.Diff(test.want, values.Secret(bd)); diff != "" {
				t.Errorf("secret (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInjectValues(t *testing.T) {
	vector := map[string][]byte{"values.yaml": []byte(`{"key":"value"}`), "target": []byte(`{"newkey":"value"}`)}
	const vectorHash = "17e05a97acde825d03ca37c2b8fc1aecf3f8f9fde28c21702492c56d4d4a68f1"
	if got := BundleValuesHash(vector); got != vectorHash {
		t.Fatalf("hash of the contract's vector = %s", got)
	}
	hashed := func(data map[string][]byte) func(*fleet.Bundle) {
		return func(b *fleet.Bundle) { b.Spec.ValuesHash = BundleValuesHash(data) }
	}
	broken := map[string][]byte{"values.yaml": []byte(`[1]`)}
	brokenTarget := map[string][]byte{"target": []byte(`nope`)}
	named := func(name string) fleet.BundleTarget { return fleet.BundleTarget{Name: name} }
	tests := map[string]struct {
		in    *fleet.Bundle
		data  map[string][]byte
		want  *fleet.Bundle
		is    error
		error string
	}{
		"values go back to the Bundle and its target": {
			in:   targetingtest.Bundle(hashed(vector), targetingtest.Targets(named("target"), named("other"), named(""))),
			data: vector,
			want: targetingtest.Bundle(hashed(vector), targetingtest.Targets(named("target"), named("other"), named("")), func(b *fleet.Bundle) {
				b.Spec.Helm = targetingtest.Helm("key", "value")
				b.Spec.Targets[0].Helm = targetingtest.Helm("newkey", "value")
			}),
		},
		"other options of helm stay": {
			in:   targetingtest.Bundle(hashed(vector), func(b *fleet.Bundle) { b.Spec.Helm = &fleet.HelmOptions{Chart: "c"} }),
			data: vector,
			want: targetingtest.Bundle(hashed(vector), func(b *fleet.Bundle) {
				b.Spec.Helm = targetingtest.Helm("key", "value")
				b.Spec.Helm.Chart = "c"
			}),
		},
		"another hash": {
			in: targetingtest.Bundle(hashed(vector)), data: map[string][]byte{"values.yaml": []byte(`{}`)}, is: ErrValuesHash,
			error: "hash mismatch between the Bundle (spec.valuesHash) and its values secret; apply the Bundle again together with its values",
		},
		"values that are not an object": {
			in: targetingtest.Bundle(hashed(broken)), data: broken,
			error: "key values.yaml of the values secret: json: cannot unmarshal array into Go value of type map[string]interface {}",
		},
		"values of a target that are not JSON": {
			in: targetingtest.Bundle(hashed(brokenTarget), targetingtest.Targets(named("target"))), data: brokenTarget,
			error: "key target of the values secret: invalid character 'o' in literal null (expecting 'u')",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.in.DeepCopy()
			got, err := InjectValues(test.in, test.data)
			if test.error != "" {
				if err == nil || err.Error() != test.error {
					t.Errorf("error = %v, want %s", err, test.error)
				}
				if test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("error %v is not %v", err, test.is)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("bundle (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.in); diff != "" {
				t.Errorf("the Bundle was changed:\n%s", diff)
			}
		})
	}
}

func TestValues_LargerThanASecret_AreRefused(t *testing.T) {
	half := make([]byte, 1<<19)
	for values, fails := range map[*Values]bool{
		{}:                              false,
		{Current: half, Staged: half}:   false,
		{Staged: append(half, half...)}: false,
		{Current: half, Staged: append(half, 'x')}: true,
	} {
		if err := values.Check(); (err != nil) != fails {
			t.Errorf("%d and %d bytes: %v", len(values.Current), len(values.Staged), err)
		}
	}
}

func FuzzInjectValues(f *testing.F) {
	f.Add([]byte(`{"key":"value"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		data := map[string][]byte{KeyBundleValues: text}
		b := targetingtest.Bundle(func(b *fleet.Bundle) { b.Spec.ValuesHash = BundleValuesHash(data) })
		injected, err := InjectValues(b, data)
		if err == nil && injected.Spec.Helm == nil {
			t.Errorf("%q was accepted and lost", text)
		}
	})
}

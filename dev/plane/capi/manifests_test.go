package capi

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/dev/plane/build"
)

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestAdapt_ReplacesServicesByURLs(t *testing.T) {
	tests := map[string]struct{ in, want, fails string }{
		"Deployment: omitted":  {in: "{apiVersion: apps/v1, kind: Deployment}"},
		"Service: omitted":     {in: "{apiVersion: v1, kind: Service}"},
		"Certificate: omitted": {in: "{apiVersion: cert-manager.io/v1, kind: Certificate}"},
		"Issuer: omitted":      {in: "{apiVersion: cert-manager.io/v1, kind: Issuer}"},
		"Role: unchanged": {
			in:   "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}}",
			want: "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}}",
		},
		"CRD without a conversion webhook: unchanged": {
			in:   "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: a}}",
			want: "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: a}}",
		},
		"conversion webhook of a CRD: URL with path and CA": {
			in: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {conversion: {strategy: Webhook, webhook:
				{conversionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: n, path: /convert}}}}}}`,
			want: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {conversion: {strategy: Webhook, webhook:
				{conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/convert", caBundle: Y2E=}}}}}`,
		},
		"each webhook: URL with its own path": {
			in: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, webhooks:
				[{name: a, clientConfig: {service: {path: /a}}}, {name: b, clientConfig: {service: {path: /b}}}]}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, webhooks:
				[{name: a, clientConfig: {url: "https://127.0.0.1:1/a", caBundle: Y2E=}}, {name: b, clientConfig: {url: "https://127.0.0.1:1/b", caBundle: Y2E=}}]}`,
		},
		"webhook without a path: error": {
			in: `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: m},
				webhooks: [{clientConfig: {service: {name: s}}}]}`,
			fails: "changing the webhooks of MutatingWebhookConfiguration m: the client configuration map[service:map[name:s]] names no path of a Service",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := objectOf(t, strings.ReplaceAll(test.in, "\t", ""))
			got, err := adapt([]*unstructured.Unstructured{in}, "https://127.0.0.1:1", []byte("ca"))
			if test.fails != "" {
				if err == nil || err.Error() != test.fails {
					t.Errorf("error %v, want %s", err, test.fails)
				}
				return
			}
			var want []*unstructured.Unstructured
			if test.want != "" {
				want = append(want, objectOf(t, strings.ReplaceAll(test.want, "\t", "")))
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManifests_OfThisVersion shows what a change of build.CAPIVersion adds or removes.
func TestManifests_OfThisVersion(t *testing.T) {
	dir, err := build.CAPI(t.Context(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := render(filepath.Join(dir, build.CAPIConfig, "default"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := adapt(rendered, "https://127.0.0.1:1", []byte("ca"))
	if err != nil {
		t.Fatal(err)
	}
	kinds, webhooks := map[string]int{}, map[string]int{}
	for _, object := range objects {
		kinds[object.GetKind()]++
		webhooks[object.GetKind()] += len(clientConfigs(object))
	}
	want := map[string]int{
		"Namespace": 1, "CustomResourceDefinition": 13, "ServiceAccount": 1, "ClusterRole": 2, "ClusterRoleBinding": 1, "Role": 1, "RoleBinding": 1,
		"MutatingWebhookConfiguration": 1, "ValidatingWebhookConfiguration": 1,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("objects by kind (-want +got):\n%s", diff)
	}
	for kind, count := range map[string]int{"CustomResourceDefinition": 13, "MutatingWebhookConfiguration": 8, "ValidatingWebhookConfiguration": 13} {
		if webhooks[kind] != count {
			t.Errorf("%s: %d webhooks, want %d", kind, webhooks[kind], count)
		}
	}
}

func TestRender_NamesTheDirectoryThatCannotBeBuilt(t *testing.T) {
	if _, err := render("/no/such/directory"); err == nil || !strings.HasPrefix(err.Error(), "building the kustomization /no/such/directory: ") {
		t.Errorf("error %v", err)
	}
}

func TestUnready_NamesWhatIsMissing(t *testing.T) {
	const (
		crd  = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, status: {conditions: "
		role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, aggregationRule: {}, rules: "
	)
	tests := map[string]struct{ in, want string }{
		"CRD without status":            {crd + "null}}", "the CRD is not established"},
		"CRD with another condition":    {crd + "[{type: NamesAccepted, status: 'True'}]}}", "the CRD is not established"},
		"CRD that is not established":   {crd + "[{type: Established, status: 'False'}]}}", "the CRD is not established"},
		"CRD that is established":       {crd + "[{type: Established, status: 'True'}]}}", ""},
		"aggregated role without rules": {role + "null}", "the controller-manager has not aggregated any rule"},
		"aggregated role with a rule":   {role + "[{verbs: [get]}]}", ""},
		"ServiceAccount":                {"{apiVersion: v1, kind: ServiceAccount}", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := unready(objectOf(t, test.in)); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("unready: %q, want %q", got, test.want)
			}
		})
	}
}

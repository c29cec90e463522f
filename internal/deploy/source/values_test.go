package source

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/kube/clientset"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestParseValues(t *testing.T) {
	tests := map[string]struct {
		text string
		want map[string]any
		err  string
	}{
		"an object":            {"a: {b: 1}\n", map[string]any{"a": map[string]any{"b": int64(1)}}, ""},
		"JSON":                 {`{"a": [1.5]}`, map[string]any{"a": []any{1.5}}, ""},
		"nothing":              {"", nil, ""},
		"a comment":            {"# x\n", nil, ""},
		"a list":               {"- hunter2\n", nil, "the values are not a YAML object"},
		"a text":               {"hunter2", nil, "the values are not a YAML object"},
		"not YAML":             {"a: b: hunter2", nil, "the values are not valid YAML"},
		"aliases":              {deploytest.AliasBomb(), nil, deploytest.TooManyAliases},
		"not YAML, with a tab": {"\thunter2", nil, "the values are not valid YAML"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseValues([]byte(test.text))
			deploytest.ExpectError(t, err, test.err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValuesSources(t *testing.T) {
	ref := func(name, namespace, key string) *fleet.ValuesKeyRef {
		return &fleet.ValuesKeyRef{Name: name, Namespace: namespace, Key: key}
	}
	tests := map[string]struct {
		options fleet.BundleDeploymentOptions
		want    string
	}{
		"no Helm options": {fleet.BundleDeploymentOptions{}, ""},
		"none":            {deploytest.InNamespace("web"), ""},
		"a ConfigMap":     {withSources(fleet.ValuesFrom{ConfigMapKeyRef: ref("a", "", "")}), `key "values.yaml" of ConfigMap web/a`},
		"a Secret with all fields": {withSources(fleet.ValuesFrom{SecretKeyRef: ref("a", "b", "c")}),
			`key "c" of Secret b/a`},
		"one entry with both: the Secret comes last": {withSources(fleet.ValuesFrom{SecretKeyRef: ref("s", "", ""), ConfigMapKeyRef: ref("c", "", "")}, fleet.ValuesFrom{ConfigMapKeyRef: ref("d", "", "")}),
			`key "values.yaml" of ConfigMap web/c, key "values.yaml" of Secret web/s, key "values.yaml" of ConfigMap web/d`},
		"copied downstream: is read from the release's namespace": {
			func() fleet.BundleDeploymentOptions {
				options := withSources(fleet.ValuesFrom{SecretKeyRef: ref("a", "elsewhere", "")})
				options.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "a"}}
				return options
			}(), `key "values.yaml" of Secret web/a`},
		"an empty entry": {withSources(fleet.ValuesFrom{}), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, source := range valuesSources(&test.options, "web") {
				got = append(got, source.String())
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

// Only missing values are invalid: for other failures to read them, users cannot correct the values.
func TestMergeValues_ReasonSaysWhyTheyCannotBeRead(t *testing.T) {
	resource := corev1.Resource("secrets")
	for name, test := range map[string]struct {
		answer any
		want   string
	}{
		"Secret is missing":    {apierrors.NewNotFound(resource, "a").Status(), conditions.ReasonHelmValuesInvalid},
		"key is missing":       {corev1.Secret{}, conditions.ReasonHelmValuesInvalid},
		"values are no object": {corev1.Secret{Data: map[string][]byte{defaultValuesKey: []byte("text")}}, conditions.ReasonHelmValuesInvalid},
		"read is refused":      {apierrors.NewForbidden(resource, "a", nil).Status(), conditions.ReasonForbidden},
		"credential is wrong":  {apierrors.NewUnauthorized("no").Status(), conditions.ReasonError},
		"API server fails":     {apierrors.NewInternalError(http.ErrAbortHandler).Status(), conditions.ReasonError},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if status, failed := test.answer.(metav1.Status); failed {
					w.WriteHeader(int(status.Code))
				}
				if err := json.NewEncoder(w).Encode(test.answer); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			typed, err := clientset.New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
			if err != nil {
				t.Fatal(err)
			}
			options := withSources(fleet.ValuesFrom{SecretKeyRef: &fleet.ValuesKeyRef{Name: "a"}})
			if _, _, err = MergeValues(t.Context(), &access.Identity{Clientset: typed}, &options, "web", nil); err == nil || outcome.ReasonOf(err) != test.want {
				t.Errorf("error %v has reason %s, want %s", err, outcome.ReasonOf(err), test.want)
			}
		})
	}
}

func withSources(from ...fleet.ValuesFrom) fleet.BundleDeploymentOptions {
	options := deploytest.InNamespace("web")
	options.Helm.ValuesFrom = from
	return options
}

func FuzzParseValues(f *testing.F) {
	f.Add([]byte("a: b"))
	f.Add([]byte("- hunter2"))
	f.Add([]byte("a: &a {b: *a}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := parseValues(text)
		if err != nil && values != nil {
			t.Errorf("both values and %v", err)
		}
	})
}

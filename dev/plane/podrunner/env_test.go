package podrunner

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

func TestExpand_ReplacesKnownReferences(t *testing.T) {
	env := map[string]string{"A": "one", "B": "$(A)", "EMPTY": ""}
	tests := map[string]struct{ text, want string }{
		"no reference: unchanged":            {"plain text", "plain text"},
		"reference: replaced":                {"--name=$(A)", "--name=one"},
		"several references: replaced":       {"$(A)-$(A)", "one-one"},
		"reference in a value: not expanded": {"$(B)", "$(A)"},
		"empty value: replaced":              {"<$(EMPTY)>", "<>"},
		"unknown name: unchanged":            {"$(C) $(A)", "$(C) one"},
		"two dollars: one dollar":            {"$$(A) $$$$", "$(A) $$"},
		"single dollar: unchanged":           {"5$ $", "5$ $"},
		"shell reference: unchanged":         {"$A ${A}", "$A ${A}"},
		"missing parenthesis: unchanged":     {"$(A", "$(A"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := expand(test.text, env); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func envPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pod-1", UID: "u1",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"example.com/note": "n"},
		},
		Spec: corev1.PodSpec{ServiceAccountName: "account"},
	}
}

func TestFieldOf_ResolvesTheDownwardAPI(t *testing.T) {
	tests := map[string]struct{ want, err string }{
		"metadata.name":                            {want: "pod-1"},
		"metadata.namespace":                       {want: "ns"},
		"metadata.uid":                             {want: "u1"},
		"metadata.labels['app']":                   {want: "web"},
		"metadata.labels['other']":                 {want: ""},
		"metadata.annotations['example.com/note']": {want: "n"},
		"spec.serviceAccountName":                  {want: "account"},
		"spec.nodeName":                            {want: ""},
		"status.podIP":                             {want: "127.0.0.1"},
		"status.hostIP":                            {want: "127.0.0.1"},
		"metadata.labels['app":                     {err: "unsupported field metadata.labels['app"},
		"metadata.generation":                      {err: "unsupported field metadata.generation"},
	}
	for path, test := range tests {
		t.Run(path, func(t *testing.T) {
			got, err := fieldOf(envPod(), path)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func ref(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func fromConfigMap(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref(name), Key: key, Optional: &optional}}
}

func fromSecret(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref(name), Key: key, Optional: &optional}}
}

func TestEnvironment_ResolvesReferences(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "there"}
	objects := []runtime.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"color": "green", "shape": "round"}},
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"word": []byte("mellon")}},
	}
	yes := true
	tests := map[string]struct {
		from []corev1.EnvFromSource
		env  []corev1.EnvVar
		want map[string]string
		err  string
	}{
		"no entries: empty": {want: map[string]string{}},
		"literals: may refer to earlier entries": {
			env:  []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)$(C)"}, {Name: "C", Value: "3"}, {Name: "A", Value: "again"}},
			want: map[string]string{"A": "again", "B": "1$(C)", "C": "3"},
		},
		"keys of a ConfigMap and a Secret: resolved": {
			env:  []corev1.EnvVar{{Name: "COLOR", ValueFrom: fromConfigMap("there", "color", false)}, {Name: "WORD", ValueFrom: fromSecret("there", "word", false)}},
			want: map[string]string{"COLOR": "green", "WORD": "mellon"},
		},
		"fields of the pod: resolved": {
			env:  []corev1.EnvVar{{Name: "ME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
			want: map[string]string{"ME": "pod-1"},
		},
		"envFrom: env overrides it": {
			from: []corev1.EnvFromSource{
				{Prefix: "c_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("there")}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("there")}},
			},
			env:  []corev1.EnvVar{{Name: "c_shape", Value: "square"}},
			want: map[string]string{"c_color": "green", "c_shape": "square", "word": "mellon"},
		},
		"optional references without target: omitted": {
			from: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("gone"), Optional: &yes}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("gone"), Optional: &yes}},
			},
			env: []corev1.EnvVar{
				{Name: "A", ValueFrom: fromConfigMap("gone", "color", true)}, {Name: "B", ValueFrom: fromConfigMap("there", "gone", true)},
				{Name: "C", ValueFrom: fromSecret("gone", "word", true)}, {Name: "D", ValueFrom: fromSecret("there", "gone", true)},
			},
			want: map[string]string{},
		},
		"missing ConfigMap: error": {
			env: []corev1.EnvVar{{Name: "A", ValueFrom: fromConfigMap("gone", "color", false)}},
			err: `resolving the environment failed: A: configmaps "gone" not found`,
		},
		"missing key: error": {
			env: []corev1.EnvVar{{Name: "A", ValueFrom: fromSecret("there", "gone", false)}},
			err: `resolving the environment failed: A: key "gone" does not exist`,
		},
		"missing Secret in envFrom: error": {
			from: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("gone")}}},
			err:  `resolving the environment failed: secrets "gone" not found`,
		},
		"unsupported field: error": {
			env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.hostname"}}}},
			err: "resolving the environment failed: A: unsupported field spec.hostname",
		},
		"unsupported kind of reference: error": {
			env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}}},
			err: "resolving the environment failed: A: unsupported kind of reference",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := environment(t.Context(), fake.NewClientset(objects...).CoreV1(), envPod(), &corev1.Container{EnvFrom: test.from, Env: test.env})
			if test.err != "" {
				if err == nil || err.Error() != test.err || !errors.Is(err, errEnv) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOptionalReference_FailsWhenTheServerFails(t *testing.T) {
	away := errors.New("the server is unavailable")
	client := fake.NewClientset()
	client.PrependReactor("get", "*", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	for name, env := range map[string]corev1.EnvVar{
		"a ConfigMap's key": {Name: "A", ValueFrom: fromConfigMap("some", "key", true)},
		"a Secret's key":    {Name: "A", ValueFrom: fromSecret("some", "key", true)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := environment(t.Context(), client.CoreV1(), envPod(), &corev1.Container{Env: []corev1.EnvVar{env}})
			if !errors.Is(err, away) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestLines_AreSorted(t *testing.T) {
	got := lines(map[string]string{"B": "2", "A": "1=1", "C": ""})
	if diff := cmp.Diff([]string{"A=1=1", "B=2", "C="}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

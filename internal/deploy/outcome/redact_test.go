package outcome

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWithoutContent_LeavesTheCause(t *testing.T) {
	patch := func(cause string) error {
		const content = `map[data:map[a:very-secret b:"very-secret": strict decoding error: very-secret]]`
		return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), content, cause)})
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"not of an API server":         {errors.New("a: strict decoding error: b"), "a: strict decoding error: b"},
		"create with an unknown field": {apierrors.NewBadRequest(`Secret in version "v1" cannot be handled as a Secret: strict decoding error: unknown field "datax"`), `unknown field "datax": correct or remove the field`},
		"patch with unknown fields":    {patch(`strict decoding error: unknown field "datax", unknown field "metadata.lables"`), `unknown field "datax", unknown field "metadata.lables": correct or remove the field`},
		"patch with a wrong type":      {patch("json: cannot unmarshal number into Go struct field Secret.stringData of type string"), "json: cannot unmarshal number into Go struct field Secret.stringData of type string"},
		"an admission webhook":         {apierrors.NewBadRequest(`admission webhook "x.io" denied the request: strict decoding error: unknown field "a"`), `admission webhook "x.io" denied the request: strict decoding error: unknown field "a"`},
		"a field called patch": {apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "a", field.ErrorList{
			field.Invalid(field.NewPath("spec", "patches").Index(0).Child("patch"), "integer", "wrong"), field.Invalid(field.NewPath("spec", "prune"), "string", "wrong, too"),
		}), `Thing "a" is invalid: [spec.patches[0].patch: Invalid value: "integer": wrong, spec.prune: Invalid value: "string": wrong, too]`},
		"invalid value of one field": {apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec", "size"), 5, "too large")}), `Thing "a" is invalid: spec.size: Invalid value: 5: too large`},
	} {
		t.Run(name, func(t *testing.T) {
			err := WithoutContent(test.err)
			if err.Error() != test.want {
				t.Errorf("got %q, want %q", err, test.want)
			}
			if !errors.Is(err, test.err) {
				t.Error("the cause is lost")
			}
		})
	}
	if WithoutContent(nil) != nil {
		t.Error("success became an error")
	}
}

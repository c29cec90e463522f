package agentchart

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestObjects reads templates as the engine may leave them.
func TestObjects(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  []string
		is    error
		err   string
	}{
		"nothing":           {files: map[string]string{}},
		"an empty template": {files: map[string]string{"a.yaml": "\n  \n"}},
		"a comment":         {files: map[string]string{"a.yaml": "# only\n---\n# comments\n"}},
		"NOTES.txt":         {files: map[string]string{"templates/NOTES.txt": "kind: Secret"}},
		"kinds in order, names of one kind as written": {
			files: map[string]string{
				"a.yaml": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: z}\n",
				"b.yaml": "# why\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: Secret\n",
			},
			want: []string{"Secret", "ServiceAccount", "ServiceAccount", "NetworkPolicy"},
		},
		"a kind without an order":          {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: Pod\n"}, is: ErrUnknownKind, err: `a.yaml: the agent's chart has an object of an unknown kind: "Pod"`},
		"an object without a kind":         {files: map[string]string{"a.yaml": "apiVersion: v1\n"}, is: ErrUnknownKind},
		"an unknown field":                 {files: map[string]string{"a.yaml": "apiVersion: apps/v1\nkind: Deployment\nspec: {replica: 1}\n"}, err: "replica"},
		"a value of the wrong type":        {files: map[string]string{"a.yaml": "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: one}\n"}, err: "Deployment: json"},
		"a duplicate key":                  {files: map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nkind: Secret\n"}, err: "already set"},
		"text that is not YAML":            {files: map[string]string{"a.yaml": "a: [\n"}, err: "reading a.yaml"},
		"a document that is not an object": {files: map[string]string{"a.yaml": "- a\n"}, err: "reading a.yaml"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := objects(test.files)
			if test.err != "" || test.is != nil {
				if err == nil || !strings.Contains(err.Error(), test.err) || test.is != nil && !errors.Is(err, test.is) {
					t.Fatalf("got %v, want %v with %q", err, test.is, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, object := range got {
				kinds = append(kinds, kindOf(object))
			}
			if diff := cmp.Diff(test.want, kinds); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

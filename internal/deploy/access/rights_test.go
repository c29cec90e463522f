package access

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestCreatesSomething(t *testing.T) {
	rule := func(verb, group, resource string, names ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: []string{"get", verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
	}
	tests := map[string]struct {
		rules []authorizationv1.ResourceRule
		want  bool
	}{
		"nothing":                         {},
		"ConfigMaps":                      {[]authorizationv1.ResourceRule{rule("create", "", "configmaps")}, true},
		"by any verb":                     {[]authorizationv1.ResourceRule{rule("*", "apps", "deployments")}, true},
		"everything":                      {[]authorizationv1.ResourceRule{rule("*", "*", "*")}, true},
		"everything of a group":           {[]authorizationv1.ResourceRule{rule("create", "batch", "*")}, true},
		"only reading":                    {[]authorizationv1.ResourceRule{rule("list", "", "configmaps")}, false},
		"only changing":                   {[]authorizationv1.ResourceRule{rule("patch", "", "configmaps")}, false},
		"cluster-scoped resources":        {[]authorizationv1.ResourceRule{rule("create", "", "namespaces")}, false},
		"asking about itself":             {[]authorizationv1.ResourceRule{rule("create", "authorization.k8s.io", "selfsubjectaccessreviews")}, false},
		"asking about others":             {[]authorizationv1.ResourceRule{rule("create", "authorization.k8s.io", "localsubjectaccessreviews")}, false},
		"a subresource":                   {[]authorizationv1.ResourceRule{rule("create", "", "pods/exec")}, false},
		"single names":                    {[]authorizationv1.ResourceRule{rule("create", "", "configmaps", "mine")}, false},
		"unknown kind":                    {[]authorizationv1.ResourceRule{rule("create", "example.com", "things")}, false},
		"one allowed resource of several": {[]authorizationv1.ResourceRule{rule("create", "", "namespaces"), rule("create", "", "secrets")}, true},
	}
	namespaced := func(resource schema.GroupResource) bool {
		return resource.Resource != "namespaces" && resource.Resource != "things"
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := createsSomething(test.rules, namespaced); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

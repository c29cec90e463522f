package objects

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/kube"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest/fake"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// storedMap is the ConfigMap that an API server has. Each entry of owners is a version of it; "" has no marks of a release.
type storedMap struct {
	owners  []string
	changes int  // how often the object changes between a read and a deletion
	missing bool // the object is deleted meanwhile
	another bool // an object of the same name takes its place each time
	deleted bool
	reads   int
}

func (s *storedMap) serve(r *http.Request) (*http.Response, error) {
	version := min(s.reads, len(s.owners)-1)
	switch r.Method {
	case http.MethodGet:
		marks := "{}"
		if owner := s.owners[version]; owner != "" {
			marks = fmt.Sprintf(`{%q:%q,%q:"web"}`, ReleaseNameAnnotation, owner, ReleaseNamespaceAnnotation)
		}
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"web","uid":"u",
			"resourceVersion":"%d","annotations":%s}}`, s.reads, marks)
		s.reads++
		return answer(http.StatusOK, text), nil
	case http.MethodDelete:
		var options metav1.DeleteOptions
		if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
			return nil, err
		}
		if s.missing {
			return answer(http.StatusNotFound, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`), nil
		}
		conditions := options.Preconditions
		if conditions != nil && *conditions.UID != "u" || conditions != nil && conditions.ResourceVersion == nil && s.reads < 4 {
			return nil, fmt.Errorf("preconditions %v in attempt %d", conditions, s.reads)
		}
		if conditions != nil && s.reads <= s.changes && (s.another || conditions.ResourceVersion != nil) {
			return answer(http.StatusConflict, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Conflict","code":409}`), nil
		}
		s.deleted = true
		return answer(http.StatusOK, `{"apiVersion":"v1","kind":"Status","status":"Success"}`), nil
	}
	return nil, fmt.Errorf("unexpected %s", r.Method)
}

func answer(code int, text string) *http.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(text))}
}

func TestDeletion_DecidesAgainAfterAConflict(t *testing.T) {
	tests := map[string]struct {
		stored  storedMap
		hook    bool
		deleted bool
		fails   bool
	}{
		"unchanged: deleted":                      {storedMap{owners: []string{"mine"}}, false, true, false},
		"changed once: deleted":                   {storedMap{owners: []string{"mine"}, changes: 1}, false, true, false},
		"another release takes it: stays":         {storedMap{owners: []string{"mine", "other"}, changes: 1}, false, false, false},
		"changes each time: deleted":              {storedMap{owners: []string{"mine"}, changes: 100}, false, true, false},
		"another release takes it last: stays":    {storedMap{owners: []string{"mine", "mine", "mine", "other"}, changes: 100}, false, false, false},
		"replaced each time: error":               {storedMap{owners: []string{"mine"}, changes: 100, another: true}, false, false, true},
		"became a copy without marks: stays":      {storedMap{owners: []string{""}}, false, false, false},
		"deleted meanwhile: no error":             {storedMap{owners: []string{"mine"}, missing: true}, false, false, false},
		"a hook's object is deleted without read": {storedMap{owners: []string{"other"}, changes: 100}, true, true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info := infoOf(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web, uid: manifest, resourceVersion: '7',\n"+
				"  labels: {objectset.rio.cattle.io/hash: set}}\n")
			info.Client = &fake.RESTClient{
				NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
				Client:               fake.CreateHTTPClient(test.stored.serve),
			}
			c := New(nil, placement.Release{Namespace: "web", Name: "mine"}, nil)
			remove := func() (*kube.Result, []error) {
				return c.DeleteWithPropagationPolicy(kube.ResourceList{info}, metav1.DeletePropagationBackground)
			}
			if test.hook {
				remove = func() (*kube.Result, []error) { return c.Delete(kube.ResourceList{info}) }
			}
			_, errs := remove()
			if test.stored.deleted != test.deleted || (len(errs) > 0) != test.fails {
				t.Errorf("deleted %t, errors %v", test.stored.deleted, errs)
			}
			if test.fails && !strings.Contains(fmt.Sprint(errs), "deleting configmap.v1 web/a") {
				t.Errorf("errors %v", errs)
			}
		})
	}
}

func TestRefusedDeletion_DoesNotKeepObjectsOfOtherKinds(t *testing.T) {
	const status = `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"not that one","reason":"Forbidden","code":403}`
	var list kube.ResourceList
	for _, object := range []string{"kind: Service, metadata: {name: b", "kind: Service, metadata: {name: a", "kind: Secret, metadata: {name: c", "kind: ConfigMap, metadata: {name: d"} {
		info := infoOf(t, "{apiVersion: v1, "+object+", namespace: web}}")
		info.Client = &fake.RESTClient{
			NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
			Client: fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "configmaps") {
					return answer(http.StatusOK, `{"apiVersion":"v1","kind":"Status","status":"Success"}`), nil
				}
				return answer(http.StatusForbidden, status), nil
			}),
		}
		list = append(list, info)
	}
	c := New(nil, placement.Release{Namespace: "web", Name: "mine"}, nil)
	result, errs := c.Delete(list)
	if len(result.Deleted) != 1 || result.Deleted[0].Name != "d" {
		t.Errorf("deleted %v", result.Deleted)
	}
	const want = "[deleting secret.v1 web/c: not that one deleting service.v1 web/a: not that one deleting service.v1 web/b: not that one]"
	if got := fmt.Sprint(errs); got != want {
		t.Errorf("errors %s, want %s", got, want)
	}
	if err := c.DeletionError(); err == nil || !strings.Contains(err.Error(), "service.v1 web/a") || !strings.Contains(err.Error(), "secret.v1 web/c") {
		t.Errorf("deletion error %v", err)
	}
}

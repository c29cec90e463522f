package objects

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/kube"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest/fake"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// infoOf returns the resource.Info of an object, as Helm uses it.
func infoOf(t *testing.T, text string) *resource.Info {
	t.Helper()
	return infoFor(deploytest.ObjectOf(t, text))
}

func infoFor(object *unstructured.Unstructured) *resource.Info {
	gvk := object.GroupVersionKind()
	return &resource.Info{
		Mapping: &meta.RESTMapping{GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace,
			Resource: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")},
		Namespace: object.GetNamespace(), Name: object.GetName(), Object: object,
	}
}

func TestThreeWayPatch(t *testing.T) {
	deployment := func(spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: web}\nspec: " + spec + "\n"
	}
	custom := func(spec string) string {
		return "apiVersion: x.io/v1\nkind: Thing\nmetadata: {name: a, namespace: web}\nspec: " + spec + "\n"
	}
	secret := func(fields string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: web}\n" + fields + "\n"
	}
	containers := func(list string) string { return "{template: {spec: {containers: [" + list + "]}}}" }
	tests := map[string]struct{ before, target, live, want string }{
		"nothing changed":                                    {deployment("{replicas: 1}"), deployment("{replicas: 1}"), deployment("{replicas: 1, paused: true}"), `{}`},
		"the bundle changed":                                 {deployment("{replicas: 1}"), deployment("{replicas: 2}"), deployment("{replicas: 1}"), `{"spec":{"replicas":2}}`},
		"another writer changed it":                          {deployment("{replicas: 1}"), deployment("{replicas: 1}"), deployment("{replicas: 5}"), `{"spec":{"replicas":1}}`},
		"the bundle removed a field":                         {deployment("{replicas: 1, paused: true}"), deployment("{replicas: 1}"), deployment("{replicas: 1, paused: true}"), `{"spec":{"paused":null}}`},
		"another writer added a field":                       {deployment("{replicas: 1}"), deployment("{replicas: 1}"), deployment("{replicas: 1, minReadySeconds: 5}"), `{}`},
		"lists of built-in kinds are keyed":                  {deployment(containers("{name: a, image: v1}")), deployment(containers("{name: a, image: v2}")), deployment(containers("{name: side, image: z}, {name: a, image: v1}")), `{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"image":"v2","name":"a"}]}}}}`},
		"a Secret's text did not change":                     {secret("stringData: {a: x}"), secret("stringData: {a: x}"), secret("data: {a: eA==, other: eA==}"), `{}`},
		"a Secret's text changed":                            {secret("stringData: {a: x}"), secret("stringData: {a: text}"), secret("data: {a: eA==}"), `{"data":{"a":"dGV4dA=="}}`},
		"a Secret's text lost a key":                         {secret("stringData: {a: x, b: text}"), secret("stringData: {a: x}"), secret("data: {a: eA==, b: dGV4dA==}"), `{"data":{"b":null}}`},
		"a Secret lost all text":                             {secret("stringData: {a: x}"), secret("type: Opaque"), secret("data: {a: eA==, other: eA==}\ntype: Opaque"), `{"data":{"a":null}}`},
		"a Secret's text moved to its data":                  {secret("stringData: {a: x, b: text}"), secret("data: {a: eA==}"), secret("data: {a: eA==, b: dGV4dA==}"), `{"data":{"b":null}}`},
		"a Secret's data moved to its text":                  {secret("data: {a: eA==, b: dGV4dA==}"), secret("stringData: {a: z}"), secret("data: {a: eA==, b: dGV4dA==}"), `{"data":{"a":"eg==","b":null}}`},
		"a Secret's text is a number, which is rejected":     {secret("stringData: {a: x}"), secret("stringData: {a: 1, b: text}"), secret("data: {a: eA==}"), `{"data":{"a":null,"b":"dGV4dA=="},"stringData":{"a":1}}`},
		"a Secret's text is not a map, which is rejected":    {secret("stringData: {a: x}"), secret("stringData: text"), secret("data: {a: eA==}"), `{"data":{"a":null},"stringData":"text"}`},
		"a custom resource did not change":                   {custom("{a: 1}"), custom("{a: 1}"), custom("{a: 1, b: 2}"), `{}`},
		"a custom resource was changed":                      {custom("{a: 1}"), custom("{a: 1}"), custom("{a: 2}"), `{"spec":{"a":1}}`},
		"a custom resource lost a field":                     {custom("{a: 1, b: 2}"), custom("{a: 1}"), custom("{a: 1, b: 2}"), `{"spec":{"b":null}}`},
		"lists of a custom resource are replaced as a whole": {custom("{a: [1]}"), custom("{a: [1, 2]}"), custom("{a: [1, 3]}"), `{"spec":{"a":[1,2]}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target := infoOf(t, test.target)
			_, patch, err := threeWayPatch(infoOf(t, test.before).Object, target, infoOf(t, test.live).Object)
			if err != nil || string(patch) != test.want {
				t.Errorf("got %s %v, want %s", patch, err, test.want)
			}
		})
	}
}

func TestCustomResourcePatch_CannotChangeIdentity(t *testing.T) {
	before, target := infoOf(t, "apiVersion: x.io/v1\nkind: Thing\nmetadata: {name: a}\n"), infoOf(t, "apiVersion: x.io/v2\nkind: Thing\nmetadata: {name: a}\n")
	if _, _, err := threeWayPatch(before.Object, target, before.Object); err == nil {
		t.Error("the version was patched")
	}
}

// An API server that does not answer takes up to 30 seconds for each object.
func TestInBatches_EndsEarlyWhenAllObjectsFail(t *testing.T) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "A"})
	var tried atomic.Int32
	err := inBatches(slices.Repeat(kube.ResourceList{infoFor(object)}, 1000), func(*resource.Info) error {
		tried.Add(1)
		return errors.New("no")
	})
	if n := tried.Load(); err == nil || n < access.Parallelism || n >= 2*access.Parallelism {
		t.Errorf("%d objects of 1000 were tried, want %d to %d; error %v", n, access.Parallelism, 2*access.Parallelism-1, err)
	}
}

func TestInBatches(t *testing.T) {
	list := func(kinds ...string) kube.ResourceList {
		var infos kube.ResourceList
		for i, kind := range kinds {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
			object.SetName(fmt.Sprint(i))
			infos = append(infos, infoFor(object))
		}
		return infos
	}
	tests := map[string]struct {
		list  kube.ResourceList
		fails string
		want  string // kinds in the order they were done, "!" for an error
	}{
		"nothing":                             {nil, "", ""},
		"one batch for each kind":             {list("A", "A", "B", "C"), "", "A A B C"},
		"kind appears again: another batch":   {list("A", "B", "A"), "", "A B A"},
		"more objects of a kind than workers": {list(slices.Repeat([]string{"A"}, 20)...), "", strings.TrimSpace(strings.Repeat("A ", 20))},
		"error: no batch after it":            {list("A", "B", "B", "C"), "B", "A B B !"},
		"one of many fails: all are done":     {append(list(slices.Repeat([]string{"A"}, 100)...), list("B")...), "B", strings.Repeat("A ", 100) + "B !"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var done []string
			err := inBatches(test.list, func(info *resource.Info) error {
				mu.Lock()
				defer mu.Unlock()
				kind := info.Mapping.GroupVersionKind.Kind
				done = append(done, kind)
				if kind == test.fails {
					return errors.New("no")
				}
				return nil
			})
			if err != nil {
				done = append(done, "!")
			}
			if got := strings.Join(done, " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A panic would end the agent: Helm uses the client in goroutines of its own.
func TestEmptyItemOfAList_IsAnError(t *testing.T) {
	account := func(secrets string) *resource.Info {
		return infoOf(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: web}\n"+secrets)
	}
	target := account("secrets: [null]\n")
	for name, test := range map[string]struct {
		before, live *resource.Info
		want         string
	}{
		"another writer's object has no such list": {target, account(""), "panic: runtime error"},
		"the API server has made an item of it":    {target, account("secrets: [{}]\n"), "list element types are not identical"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, list := range []kube.ResourceList{{target}, {target, target}} {
				err := inBatches(list, func(info *resource.Info) error {
					_, _, err := threeWayPatch(test.before.Object, info, test.live.Object)
					return err
				})
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "serviceaccount.v1 web/a has a list with an empty item") {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		want        placement.Release
		known       bool
	}{
		"no owner":                      {nil, placement.Release{}, false},
		"owned by a release":            {map[string]string{ReleaseNameAnnotation: "a", ReleaseNamespaceAnnotation: "web"}, placement.Release{Namespace: "web", Name: "a"}, true},
		"only the name annotation":      {map[string]string{ReleaseNameAnnotation: "a"}, placement.Release{Namespace: "", Name: "a"}, true},
		"only the namespace annotation": {map[string]string{ReleaseNamespaceAnnotation: "web"}, placement.Release{Namespace: "web", Name: ""}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetAnnotations(test.annotations)
			got, known := ownerOf(object)
			if got != test.want || known != test.known {
				t.Errorf("got %v %t", got, known)
			}
		})
	}
}

func TestRecognise(t *testing.T) {
	tests := map[string]struct {
		rendered, manifest string
		isNew, isOld       bool
	}{
		"nothing rendered yet: is former":         {"", "whatever", false, true},
		"manifest to install: is new":             {"new", "new", true, false},
		"a former revision":                       {"new", "old", false, true},
		"former revision deployed again: is both": {"old", "old", true, true},
		"hook: is neither":                        {"new", "hook", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &Client{Old: map[int]string{1: "old", 2: "older"}}
			if test.rendered != "" {
				c.willBe(test.rendered)
			}
			if isNew, isOld := c.recognise([]byte(test.manifest)); isNew != test.isNew || isOld != test.isOld {
				t.Errorf("new %t old %t", isNew, isOld)
			}
		})
	}
}

// Other programs store releases with such objects. They must not keep the bundle from being corrected or uninstalled.
func TestObjectWithoutName_IsLeftOutOfFormerRevisions(t *testing.T) {
	const nameless = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a-}\n"
	tests := map[string]struct {
		rendered string
		installs bool
		refused  bool
	}{
		"uninstallation: left out":                   {"", false, false},
		"upgrade from it: left out":                  {"new", false, false},
		"manifest to install: it is refused":         {nameless, true, true},
		"the folder crds/ of a chart: it is refused": {"", true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &Client{Old: map[int]string{1: nameless}, Installs: test.installs}
			c.willBe(test.rendered)
			list, err := c.Build(strings.NewReader(nameless), false)
			if (err != nil) != test.refused || len(c.Refs(list)) > 0 {
				t.Errorf("objects %v, error %v", list, err)
			}
			if test.refused {
				return
			}
			if _, err := c.Create(list); err != nil { // as for a hook
				t.Errorf("creating: %v", err)
			}
			if err := c.WatchUntilReady(list, time.Minute); err != nil {
				t.Errorf("waiting: %v", err)
			}
		})
	}
}

func TestForget_KeepsOnlyNamesOfAChartsCRDs(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.x.io}\nspec: {group: x.io}\n"
	const name = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.x.io}\n"
	const other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\ndata: {a: b}\n"
	tests := map[string]struct {
		client *Client
		object string
		want   string
	}{
		"a CRD before the chart is rendered": {&Client{Installs: true}, crd, name},
		"a CRD of the rendered manifest":     {&Client{Installs: true, rendered: crd}, crd, crd},
		"a CRD of an upgrade or rollback":    {&Client{}, crd, crd},
		"another object":                     {&Client{Installs: true}, other, other},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			info := infoOf(t, test.object)
			forgot := test.client.forget(info)
			if diff := cmp.Diff(deploytest.ObjectOf(t, test.want), info.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if forgot != (test.object != test.want) {
				t.Errorf("forgot = %t", forgot)
			}
		})
	}
}

// Admission answers a CREATE request before the API server notices that the namespace exists.
func TestRefusedNamespace_IsNoErrorIfItExists(t *testing.T) {
	const status = `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"no",`
	const bare = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {name: web}}\n"
	tests := map[string]struct {
		code   int
		answer string
		object string
		exists bool
		want   metav1.StatusReason
	}{
		"account without the right":              {http.StatusForbidden, status + `"reason":"Forbidden","code":403}`, bare, true, metav1.StatusReasonAlreadyExists},
		"policy of Kyverno":                      {http.StatusBadRequest, status + `"code":400}`, bare, true, metav1.StatusReasonAlreadyExists},
		"ValidatingAdmissionPolicy":              {http.StatusUnprocessableEntity, status + `"reason":"Invalid","code":422}`, bare, true, metav1.StatusReasonAlreadyExists},
		"webhook that does not answer":           {http.StatusInternalServerError, status + `"reason":"InternalError","code":500}`, bare, true, metav1.StatusReasonAlreadyExists},
		"namespace exists":                       {http.StatusConflict, status + `"reason":"AlreadyExists","code":409}`, bare, false, metav1.StatusReasonAlreadyExists},
		"policy, namespace does not exist":       {http.StatusUnprocessableEntity, status + `"reason":"Invalid","code":422}`, bare, false, metav1.StatusReasonInvalid},
		"policy, the bundle has its own details": {http.StatusUnprocessableEntity, status + `"reason":"Invalid","code":422}`, "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {own: label}}\n", true, metav1.StatusReasonInvalid},
		"namespace is created":                   {http.StatusCreated, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"web"}}`, bare, false, metav1.StatusReasonUnknown},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info := infoOf(t, test.object)
			info.Mapping.Scope = meta.RESTScopeRoot
			info.Client = &fake.RESTClient{
				NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
				Client: fake.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
					return answer(test.code, test.answer), nil
				}),
			}
			c := New(&access.Identity{}, placement.Release{Namespace: "web", Name: "x"}, nil)
			c.NamespaceExists = func() bool { return test.exists }
			_, err := c.Create(kube.ResourceList{info})
			if got := apierrors.ReasonForError(err); got != test.want {
				t.Errorf("reason %q, want %q: %v", got, test.want, err)
			}
			if created := test.code == http.StatusCreated; created != (err == nil) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestUnknownFields_AreRefusedInNewContent(t *testing.T) {
	thing := func(size int) string {
		return fmt.Sprintf("apiVersion: x.io/v1\nkind: Thing\nmetadata: {name: a, namespace: web}\nspec: {size: %d}\n", size)
	}
	list := func(size int) kube.ResourceList { return kube.ResourceList{infoOf(t, thing(size))} }
	for name, test := range map[string]struct {
		missing, rollback, force, adopted, undeployed, agent bool
		former                                               []kube.ResourceList // the deployed revision, and failed ones
		others                                               []kube.ResourceList // of a former release
		want                                                 string
	}{
		"created: refused": {missing: true, want: "Strict"},
		"created by the agent's own bundle: accepted":       {missing: true, agent: true},
		"changed by the agent's own bundle: accepted":       {former: []kube.ResourceList{list(1)}, agent: true},
		"created again, as deployed: accepted":              {missing: true, former: []kube.ResourceList{list(2)}},
		"created again, changed: refused":                   {missing: true, former: []kube.ResourceList{list(1)}, want: "Strict"},
		"created by a rollback: accepted":                   {missing: true, rollback: true},
		"changed: refused":                                  {former: []kube.ResourceList{list(1)}, want: "Strict"},
		"changed by a rollback: accepted":                   {former: []kube.ResourceList{list(1)}, rollback: true},
		"replaced: refused":                                 {former: []kube.ResourceList{list(1)}, force: true, want: "Strict"},
		"replaced without a change: accepted":               {former: []kube.ResourceList{list(2)}, force: true},
		"as deployed: accepted":                             {former: []kube.ResourceList{list(2)}},
		"as deployed, after a failed change: accepted":      {former: []kube.ResourceList{list(2), list(3)}},
		"only a label changed: accepted":                    {former: []kube.ResourceList{{infoOf(t, strings.Replace(thing(2), "metadata: {", "metadata: {labels: {a: b}, ", 1))}}},
		"metadata changed: refused":                         {former: []kube.ResourceList{{infoOf(t, strings.Replace(thing(2), "metadata: {", "metadata: {lables: {a: b}, ", 1))}}, want: "Strict"},
		"adopted: refused":                                  {adopted: true, want: "Strict"},
		"as before, no revision is deployed: refused":       {undeployed: true, former: []kube.ResourceList{list(2)}, want: "Strict"},
		"as before, which failed: refused":                  {former: []kube.ResourceList{list(1), list(2)}, want: "Strict"},
		"as of the release it belonged to: accepted":        {former: []kube.ResourceList{nil}, others: []kube.ResourceList{list(2)}},
		"changed since the release it belonged to: refused": {former: []kube.ResourceList{nil}, others: []kube.ResourceList{list(3)}, want: "Strict"},
	} {
		t.Run(name, func(t *testing.T) {
			target, written := infoOf(t, thing(2)), ""
			if !test.rollback {
				target.Source = fromBundle
			}
			stored, err := json.Marshal(infoOf(t, thing(1)).Object)
			if err != nil {
				t.Fatal(err)
			}
			target.Client = &fake.RESTClient{NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
				Client: fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
					switch {
					case r.Method != http.MethodGet:
						written = r.Method + r.URL.Query().Get("fieldValidation")
					case test.missing:
						return answer(http.StatusNotFound, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`), nil
					}
					return answer(http.StatusOK, string(stored)), nil
				})}
			if test.adopted {
				test.former = []kube.ResourceList{copyOf(kube.ResourceList{target})}
			}
			method := http.MethodPatch
			switch {
			case test.missing:
				method = http.MethodPost
			case test.force:
				method = http.MethodPut
			}
			client := New(&access.Identity{}, placement.Release{}, nil)
			client.Undeployed, client.IsAgent = test.undeployed, test.agent
			if _, err := client.update(test.former, test.others, target, test.force); err != nil {
				t.Fatal(err)
			}
			if written != method+test.want {
				t.Errorf("wrote %q, want %q", written, method+test.want)
			}
		})
	}
}

func TestUnknownField_OfCustomResourceIsTriedAgain(t *testing.T) {
	const refusal = `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"BadRequest","code":400,"message":"strict decoding error: unknown field \"size\""}`
	const custom = "apiVersion: gateway.networking.k8s.io/v1\nkind: Thing\nmetadata: {name: a, namespace: web}\n"
	for name, test := range map[string]struct {
		text     string
		stops    bool // the agent
		requests int
	}{
		"custom resource: tried again":              {custom, false, 3},
		"custom resource, the agent stops: refused": {custom, true, 1},
		"built-in kind: refused":                    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: web}\n", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				info := infoOf(t, test.text)
				info.Source, info.Namespace = fromBundle, "web"
				info.Client = &fake.RESTClient{NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
					Client: fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
						if requests++; requests < 3 {
							return answer(http.StatusBadRequest, refusal), nil
						}
						sent, err := io.ReadAll(r.Body)
						return answer(http.StatusCreated, string(sent)), err
					})}
				stopped := make(chan struct{})
				if test.stops {
					close(stopped)
				}
				_, err := New(&access.Identity{}, placement.Release{}, stopped).Create(kube.ResourceList{info})
				if requests != test.requests || (err == nil) != (test.requests == 3) {
					t.Errorf("%d requests, error %v; want %d requests", requests, err, test.requests)
				}
				if err != nil && !strings.HasSuffix(err.Error(), ` web/a: unknown field "size": correct or remove the field`) {
					t.Errorf("error %q", err)
				}
			})
		})
	}
}

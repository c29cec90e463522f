package undecodable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	kjson "sigs.k8s.io/json"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// document returns an object with this name and these additional fields.
func document(kind, name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":%q,"metadata":{"name":%q,"namespace":"ws","resourceVersion":"7","uid":"u-%s"}%s}`, kind, name, name, rest)
}

// metaOfC returns the metadata of a document with name c.
func metaOfC() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "c", Namespace: "ws", ResourceVersion: "7", UID: "u-c"}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "fleet.cattle.io/v1alpha1", Kind: kind}
}

// cluster returns the decoded document of Cluster c.
func cluster(change func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{TypeMeta: typeOf("Cluster"), ObjectMeta: metaOfC()}
	change(c)
	return c
}

func TestDecodeFields(t *testing.T) {
	seconds := int64(5)
	tests := map[string]struct {
		raw  string
		want runtime.Object
		lost []string
	}{
		"everything can be decoded": {
			raw:  document("Cluster", "c", `,"spec":{"clientID":"id"},"status":{"agent":{"namespace":"n"}}`),
			want: cluster(func(c *fleet.Cluster) { c.Spec.ClientID, c.Status.Agent.Namespace = "id", "n" }),
		},
		"a duration": {
			raw:  document("Cluster", "c", `,"spec":{"clientID":"id"},"status":{"garbageCollectionInterval":"x","namespace":"n"}`),
			want: cluster(func(c *fleet.Cluster) { c.Spec.ClientID, c.Status.Namespace = "id", "n" }),
			lost: []string{"status.garbageCollectionInterval"},
		},
		"a time in lower case: its parent is left out": {
			raw:  document("Cluster", "c", `,"status":{"agent":{"lastSeen":"2026-01-02t03:04:05z","namespace":"n"},"namespace":"n"}`),
			want: cluster(func(c *fleet.Cluster) { c.Status.Namespace = "n" }),
			lost: []string{"status.agent"},
		},
		"a field of a list's element: the list is left out": {
			raw:  document("Cluster", "c", `,"spec":{"clientID":"id","agentTolerations":[{"key":"a"},{"key":"b","tolerationSeconds":1e30}]}`),
			want: cluster(func(c *fleet.Cluster) { c.Spec.ClientID = "id" }),
			lost: []string{"spec.agentTolerations"},
		},
		"fields beside it stay": {
			raw: document("Cluster", "c", `,"spec":{"paused":1,"agentTolerations":[{"tolerationSeconds":5}]},"status":{"agentMigrated":"yes","scheduled":true}`),
			want: cluster(func(c *fleet.Cluster) {
				c.Spec.AgentTolerations, c.Status.Scheduled = []corev1.Toleration{{TolerationSeconds: &seconds}}, true
			}),
			lost: []string{"spec.paused", "status.agentMigrated"},
		},
		"spec and status that are not objects": {
			raw:  document("Cluster", "c", `,"spec":[],"status":"fine"`),
			want: cluster(func(*fleet.Cluster) {}),
			lost: []string{"spec", "status"},
		},
		"a token's TTL": {
			raw:  document("ClusterRegistrationToken", "c", `,"spec":{"ttl":"1d"}`),
			want: &fleet.ClusterRegistrationToken{TypeMeta: typeOf("ClusterRegistrationToken"), ObjectMeta: metaOfC()},
			lost: []string{"spec.ttl"},
		},
		"bytes at the top level": {
			raw:  document("Content", "c", `,"content":"?","sha256sum":"s"`),
			want: &fleet.Content{TypeMeta: typeOf("Content"), ObjectMeta: metaOfC(), SHA256Sum: "s"},
			lost: []string{"content"},
		},
		"unknown fields are ignored": {
			raw:  document("Cluster", "c", `,"spec":{"paused":"x","Paused":"x","more":{"a":[1]}},"more":1`),
			want: cluster(func(*fleet.Cluster) {}),
			lost: []string{"spec.paused"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := emptyOf(test.want)
			fields, err := decodeFields([]byte(test.raw), got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.lost, fields); diff != "" {
				t.Errorf("undecodable (-want +got):\n%s", diff)
			}
		})
	}
	for _, raw := range []string{"", "[]", "5", `"x"`, `{"metadata":`, "{}{}"} {
		if fields, err := decodeFields([]byte(raw), &fleet.Cluster{}); err == nil {
			t.Errorf("%q was decoded without %v", raw, fields)
		}
	}
}

// emptyOf returns an empty object of the same kind.
func emptyOf(object runtime.Object) runtime.Object {
	switch object.(type) {
	case *fleet.Content:
		return &fleet.Content{}
	case *fleet.Bundle:
		return &fleet.Bundle{}
	case *fleet.ClusterRegistrationToken:
		return &fleet.ClusterRegistrationToken{}
	default:
		return &fleet.Cluster{}
	}
}

func emptyCluster() runtime.Object { return &fleet.Cluster{} }

func TestDecodeItems(t *testing.T) {
	raw := `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"ClusterList","metadata":{"resourceVersion":"9","continue":"more","remainingItemCount":5},"items":[` +
		document("Cluster", "a", `,"spec":{"clientID":"id"}`) + "," + document("Cluster", "b", `,"spec":{"paused":5,"clientID":"id"}`) + `]}`
	got, noted := &fleet.ClusterList{}, map[string][]string{}
	err := decodeItems([]byte(raw), got, emptyCluster, func(object runtime.Object, fields []string) {
		noted[object.(*fleet.Cluster).Name] = fields //nolint:forcetypeassert // the list contains Clusters
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &fleet.ClusterList{}
	if err := json.Unmarshal([]byte(strings.Replace(raw, `"paused":5,`, "", 1)), want); err != nil {
		t.Fatal(err)
	}
	want.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{"a": nil, "b": {"spec.paused"}}, noted); diff != "" {
		t.Errorf("noted (-want +got):\n%s", diff)
	}
	for _, raw := range []string{"", "[]", `{"items":5}`, `{"items":[5]}`, `{"items":[],"metadata":5}`} {
		if err := decodeItems([]byte(raw), &fleet.ClusterList{}, emptyCluster, func(runtime.Object, []string) {}); err == nil {
			t.Errorf("%q was decoded", raw)
		}
	}
}

// A document that the general decoder accepts is decoded completely, and no other part is lost with an undecodable one.
func FuzzDecodeFields(f *testing.F) {
	f.Add([]byte(document("Cluster", "c", `,"spec":{"agentResources":{"limits":{"memory":"1e1.5"}},"agentTolerations":[{"tolerationSeconds":1e30}]},"status":{"agent":{"lastSeen":"x"}}`)))
	f.Add([]byte(document("Bundle", "c", `,"spec":{"rolloutStrategy":{"maxUnavailable":99999999999},"targets":[{"doNotDeploy":1}]}`)))
	f.Add(sampleCluster(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, of := range []runtime.Object{&fleet.Cluster{}, &fleet.Bundle{}, &fleet.ClusterRegistrationToken{}} {
			whole, got := emptyOf(of), emptyOf(of)
			if kjson.UnmarshalCaseSensitivePreserveInts(raw, whole) != nil {
				_, _ = decodeFields(raw, got)
				continue
			}
			fields, err := decodeFields(raw, got)
			if err != nil || len(fields) > 0 {
				t.Fatalf("undecodable %v, error %v", fields, err)
			}
			if diff := cmp.Diff(whole, got); diff != "" {
				t.Fatalf("decoded (-whole +got):\n%s", diff)
			}
		}
	})
}

// reports is an Objects that records its reports.
type reports struct {
	*Objects
	now    time.Time
	log    bytes.Buffer
	events []string
}

func newReports() *reports {
	r := &reports{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}
	r.Objects = New(slog.New(slog.NewTextHandler(&r.log, plain)), func() time.Time { return r.now },
		func(_ runtime.Object, message string) { r.events = append(r.events, message) })
	return r
}

// expect compares the reports since the last call: one log line and one Event, or none if they are empty.
func (r *reports) expect(t *testing.T, line, event string) {
	t.Helper()
	if diff := cmp.Diff(line, strings.TrimSuffix(r.log.String(), "\n")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(event, strings.Join(r.events, "\n")); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	r.log.Reset()
	r.events = nil
}

// versioned returns Cluster ws/c with this version.
func versioned(version string) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c", UID: "u", ResourceVersion: version}}
}

func TestUndecodableObject_IsReportedOnceInTenMinutes(t *testing.T) {
	r := newReports()
	line := `msg="object cannot be decoded completely" object="Cluster ws/c" error="undecodable: spec.a, status.b, status.c and 1 more; ` +
		`correct it with: kubectl edit clusters.fleet.cattle.io c --namespace ws --subresource status"`
	event := "spec.a, status.b, status.c and 1 more cannot be decoded, so the object is not reconciled. " +
		"Correct it with: kubectl edit clusters.fleet.cattle.io c --namespace ws --subresource status"
	fields := []string{"spec.a", "status.b", "status.c", "status.d"}
	r.note("Cluster", versioned("1"), nil)
	r.expect(t, "", "")
	r.note("Cluster", versioned("1"), fields)
	r.expect(t, line, event)
	r.now = r.now.Add(reportEvery - time.Second)
	r.note("Cluster", versioned("2"), []string{"spec.other"})
	r.expect(t, "", "")
	r.now = r.now.Add(time.Second)
	r.note("Cluster", versioned("3"), fields)
	r.expect(t, line, event)
	deleting := versioned("4")
	deleting.DeletionTimestamp = &metav1.Time{Time: r.now}
	r.now = r.now.Add(reportEvery)
	r.note("Cluster", deleting, fields)
	r.expect(t, "", "")
}

func TestFields_OfIncompleteVersions(t *testing.T) {
	r := newReports()
	r.note("Cluster", versioned("9"), []string{"spec.a"})
	r.note("Cluster", versioned("8"), []string{"spec.b"}) // from a stale cache
	deleting := versioned("10")
	deleting.DeletionTimestamp = &metav1.Time{Time: r.now}
	tests := map[string]struct {
		object *fleet.Cluster
		want   []string
	}{
		"the incomplete version":                 {versioned("9"), []string{"spec.a"}},
		"an older version, from a stale cache":   {versioned("8"), []string{"spec.a"}},
		"a corrected version":                    {versioned("10"), nil},
		"a deleted object: it can be reconciled": {deleting, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, r.Fields(test.object)); diff != "" {
				t.Errorf("undecodable (-want +got):\n%s", diff)
			}
		})
	}
	if fields := (*Objects)(nil).Fields(versioned("9")); fields != nil {
		t.Errorf("a nil Objects has %v", fields)
	}
}

// deletions stores the handlers of an informer, so that tests can call them.
type deletions struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (i *deletions) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return nil, nil
}

func TestDeletedObject_IsForgotten(t *testing.T) {
	r, informer := newReports(), &deletions{}
	if err := r.ForgetDeleted(informer); err != nil {
		t.Fatal(err)
	}
	for name, gone := range map[string]any{"deleted": versioned("6"), "found to be deleted": cache.DeletedFinalStateUnknown{Obj: versioned("6")}} {
		r.note("Cluster", versioned("6"), []string{"spec.a"})
		informer.handler.OnDelete(gone)
		if len(r.objects) > 0 {
			t.Errorf("%s: it is remembered", name)
		}
	}
}

// writes is a controller of Clusters that records its writes.
type writes struct {
	generic.ControllerInterface[*fleet.Cluster, *fleet.ClusterList]

	sent    []string
	handler generic.ObjectHandler[*fleet.Cluster]
}

func (w *writes) Update(c *fleet.Cluster) (*fleet.Cluster, error) {
	w.sent = append(w.sent, "object")
	return c, nil
}

func (w *writes) UpdateStatus(c *fleet.Cluster) (*fleet.Cluster, error) {
	w.sent = append(w.sent, "status")
	return c, nil
}

func (w *writes) GroupVersionKind() schema.GroupVersionKind {
	return fleet.SchemeGroupVersion.WithKind("Cluster")
}

func (w *writes) OnChange(_ context.Context, _ string, handler generic.ObjectHandler[*fleet.Cluster]) {
	w.handler = handler
}

func TestUndecodableFields_AreNotOverwritten(t *testing.T) {
	tests := map[string]struct {
		fields, want []string
		refusal      string
	}{
		"nothing is undecodable": {want: []string{"object", "status"}},
		"a field of the spec":    {fields: []string{"spec.a"}, want: []string{"status"}, refusal: "not overwriting Cluster ws/c: spec.a cannot be decoded"},
		"a field of the status":  {fields: []string{"status.a"}, want: []string{"object"}, refusal: "not overwriting Cluster ws/c: status.a cannot be decoded"},
		"the whole status":       {fields: []string{"status"}, want: []string{"object"}, refusal: "not overwriting Cluster ws/c: status cannot be decoded"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, server := newReports(), &writes{}
			r.note("Cluster", versioned("1"), test.fields)
			clusters := Guard(server, r.Objects)
			refusal := ""
			for _, write := range []func(*fleet.Cluster) (*fleet.Cluster, error){clusters.Update, clusters.UpdateStatus} {
				if _, err := write(versioned("1")); err != nil {
					refusal = err.Error()
				}
			}
			if diff := cmp.Diff(test.want, server.sent); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if refusal != test.refusal {
				t.Errorf("refused with %q", refusal)
			}
		})
	}
}

func TestUndecodableObject_CallsNoHandler(t *testing.T) {
	r, server := newReports(), &writes{}
	clusters := Guard(server, r.Objects)
	var called []string
	clusters.OnChange(t.Context(), "x", func(key string, c *fleet.Cluster) (*fleet.Cluster, error) {
		called = append(called, key)
		return c, nil
	})
	r.note("Cluster", versioned("1"), []string{"status.a"})
	for key, c := range map[string]*fleet.Cluster{"1": versioned("1"), "2": versioned("2"), "gone": nil} {
		if got, err := server.handler(key, c); got != c || err != nil {
			t.Errorf("%v, error %v", got, err)
		}
	}
	if diff := cmp.Diff([]string{"2", "gone"}, called, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("called (-want +got):\n%s", diff)
	}
}

func TestUndecodableObject_CallsUnguardedHandler(t *testing.T) {
	r, server := newReports(), &writes{}
	var called []string
	Unguarded(Guard(server, r.Objects)).OnChange(t.Context(), "x", func(key string, c *fleet.Cluster) (*fleet.Cluster, error) {
		called = append(called, key)
		return c, nil
	})
	r.note("Cluster", versioned("1"), []string{"status.a"})
	if _, err := server.handler("1", versioned("1")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1"}, called); diff != "" {
		t.Errorf("called (-want +got):\n%s", diff)
	}
}

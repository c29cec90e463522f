package hub

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
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

func TestSalvage(t *testing.T) {
	seen := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	seconds := int64(5)
	tests := map[string]struct {
		raw  string
		want runtime.Object
		lost []string
	}{
		"what is whole stays so": {
			raw: document("Cluster", "c", `,"spec":{"clientID":"id"},"status":{"agent":{"lastSeen":"2026-01-02T03:04:05Z","namespace":"n"}}`),
			want: cluster(func(c *fleet.Cluster) {
				c.Spec.ClientID, c.Status.Agent.LastSeen, c.Status.Agent.Namespace = "id", seen, "n"
			}),
		},
		"a duration, all else is read": {
			raw: document("Cluster", "c", `,"spec":{"clientID":"id"},"status":{"garbageCollectionInterval":"x","namespace":"n"}`),
			want: cluster(func(c *fleet.Cluster) {
				c.Spec.ClientID, c.Status.Namespace = "id", "n"
			}),
			lost: []string{"status.garbageCollectionInterval is not a valid Duration"},
		},
		"a time in small letters, beside what an agent says in the same place": {
			raw: document("Cluster", "c", `,"status":{"agent":{"lastSeen":"2026-01-02t03:04:05z","namespace":"n","agentVersion":"v1"}}`),
			want: cluster(func(c *fleet.Cluster) {
				c.Status.Agent.Namespace, c.Status.Agent.AgentVersion = "n", "v1"
			}),
			lost: []string{"status.agent.lastSeen is not a valid Time"},
		},
		"a number that is too large, in a struct that is embedded": {
			raw:  document("Cluster", "c", `,"status":{"agent":{"nodes":99999999999,"readyNodes":0,"namespace":"n"}}`),
			want: cluster(func(c *fleet.Cluster) { c.Status.Agent.Namespace, c.Status.Agent.ReadyNodes = "n", new(int32) }),
			lost: []string{"status.agent.nodes is not a valid int32"},
		},
		"one entry of a map": {
			raw: document("Cluster", "c", `,"spec":{"agentResources":{"limits":{"cpu":"1","memory":"1e1.5"}}}`),
			want: cluster(func(c *fleet.Cluster) {
				c.Spec.AgentResources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}
			}),
			lost: []string{"spec.agentResources.limits.memory is not a valid Quantity"},
		},
		"a field of an element of a list": {
			raw: document("Cluster", "c", `,"spec":{"agentTolerations":[{"key":"a","tolerationSeconds":5},{"key":"b","tolerationSeconds":1e30}]}`),
			want: cluster(func(c *fleet.Cluster) {
				c.Spec.AgentTolerations = []corev1.Toleration{{Key: "a", TolerationSeconds: &seconds}, {Key: "b"}}
			}),
			lost: []string{"spec.agentTolerations[1].tolerationSeconds is not a valid int64"},
		},
		"an element of a list is left out": {
			raw: document("Cluster", "c", `,"status":{"conditions":[{"type":"A"},"B",{"type":"C"}]}`),
			want: cluster(func(c *fleet.Cluster) {
				c.Status.Conditions = []genericcondition.GenericCondition{{Type: "A"}, {Type: "C"}}
			}),
			lost: []string{"status.conditions[1] is not a valid GenericCondition"},
		},
		"several": {
			raw:  document("Cluster", "c", `,"spec":{"paused":1,"clientID":"id"},"status":{"agentMigrated":"yes","scheduled":true}`),
			want: cluster(func(c *fleet.Cluster) { c.Spec.ClientID, c.Status.Scheduled = "id", true }),
			lost: []string{"spec.paused is not a valid bool", "status.agentMigrated is not a valid bool"},
		},
		"a status that is none": {
			raw:  document("Cluster", "c", `,"spec":{"clientID":"id"},"status":"fine"`),
			want: cluster(func(c *fleet.Cluster) { c.Spec.ClientID = "id" }),
			lost: []string{"status is not a valid ClusterStatus"},
		},
		"nothing but the metadata": {
			raw:  document("Cluster", "c", `,"spec":[],"status":[]`),
			want: cluster(func(*fleet.Cluster) {}),
			lost: []string{"spec is not a valid ClusterSpec", "status is not a valid ClusterStatus"},
		},
		"so much of a list that all of it is given up": {
			raw: document("BundleDeployment", "c", `,"status":{"release":"r","resources":[`+strings.Repeat(`{"kind":"K","createdAt":"x"},`, 500)+`{}]}`),
			want: &fleet.BundleDeployment{
				TypeMeta: typeOf("BundleDeployment"), ObjectMeta: metaOfC(), Status: fleet.BundleDeploymentStatus{Release: "r"},
			},
			lost: []string{"status.resources is not a valid []v1alpha1.DeployedResource"},
		},
		"a rollout's limit that is no number of 32 bits": {
			raw: document("Bundle", "c", `,"spec":{"rolloutStrategy":{"maxUnavailable":99999999999,"maxUnavailablePartitions":"10%"}}`),
			want: &fleet.Bundle{TypeMeta: typeOf("Bundle"), ObjectMeta: metaOfC(), Spec: fleet.BundleSpec{
				RolloutStrategy: &fleet.RolloutStrategy{MaxUnavailablePartitions: &intstr.IntOrString{Type: intstr.String, StrVal: "10%"}},
			}},
			lost: []string{"spec.rolloutStrategy.maxUnavailable is not a valid IntOrString"},
		},
		"a token's life": {
			raw:  document("ClusterRegistrationToken", "c", `,"spec":{"ttl":"1d"}`),
			want: &fleet.ClusterRegistrationToken{TypeMeta: typeOf("ClusterRegistrationToken"), ObjectMeta: metaOfC()},
			lost: []string{"spec.ttl is not a valid Duration"},
		},
		"bytes that are none": {
			raw:  document("Content", "c", `,"content":"?","sha256sum":"s"`),
			want: &fleet.Content{TypeMeta: typeOf("Content"), ObjectMeta: metaOfC(), SHA256Sum: "s"},
			lost: []string{"content is not a valid []uint8"},
		},
		"what nobody knows is not looked at": {
			raw:  document("Cluster", "c", `,"spec":{"paused":"x","Paused":"x","more":{"a":[1]}},"more":1`),
			want: cluster(func(*fleet.Cluster) {}),
			lost: []string{"spec.paused is not a valid bool"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := emptyOf(test.want)
			missing, err := salvage([]byte(test.raw), got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.lost, texts(missing)); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
		})
	}
}

// emptyOf returns a new object of the same kind.
func emptyOf(object runtime.Object) runtime.Object {
	empty, _ := reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object)
	return empty
}

// texts returns the descriptions of the undecodable parts.
func texts(missing []lost) (out []string) {
	for _, l := range missing {
		out = append(out, l.String())
	}
	return out
}

func TestSalvage_RefusesOtherDocuments(t *testing.T) {
	for _, raw := range []string{"", "[]", "5", `"x"`, `{"metadata":`, "{}{}"} {
		if missing, err := salvage([]byte(raw), &fleet.Cluster{}); err == nil {
			t.Errorf("%q was read, without %v", raw, missing)
		}
	}
}

func TestSalvageList(t *testing.T) {
	raw := `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"ClusterList","metadata":{"resourceVersion":"9","continue":"more"},"items":[` +
		document("Cluster", "a", `,"spec":{"clientID":"id"}`) + "," + document("Cluster", "b", `,"spec":{"paused":5,"clientID":"id"}`) + "," +
		document("Cluster", "c", `,"spec":{"clientID":"id"}`) + `]}`
	got, told := &fleet.ClusterList{}, map[string][]string{}
	err := salvageList([]byte(raw), got, func(object runtime.Object, missing []lost) {
		told[object.(*fleet.Cluster).Name] = texts(missing) //nolint:forcetypeassert // it is a list of Clusters
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &fleet.ClusterList{}
	if err := json.Unmarshal([]byte(strings.Replace(raw, `"paused":5,`, "", 1)), want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{"a": nil, "b": {"spec.paused is not a valid bool"}, "c": nil}, told); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	for _, raw := range []string{"", "[]", `{"items":5}`, `{"items":[5]}`, `{"items":[],"metadata":5}`} {
		if err := salvageList([]byte(raw), &fleet.ClusterList{}, func(runtime.Object, []lost) {}); err == nil {
			t.Errorf("%q was read", raw)
		}
	}
}

// Objects and parts that can be decoded completely are decoded completely.
func FuzzSalvage(f *testing.F) {
	f.Add([]byte(document("Cluster", "c", `,"spec":{"agentResources":{"limits":{"memory":"1e1.5"}},"agentTolerations":[{"tolerationSeconds":1e30}]},"status":{"agent":{"lastSeen":"x"}}`)))
	f.Add([]byte(document("Bundle", "c", `,"spec":{"rolloutStrategy":{"maxUnavailable":99999999999},"targets":[{"doNotDeploy":1}]}`)))
	f.Add([]byte(document("BundleDeployment", "c", `,"status":{"resources":[{"createdAt":"x"},5,null]}`)))
	f.Add(sampleCluster(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, of := range []runtime.Object{&fleet.Cluster{}, &fleet.Bundle{}, &fleet.BundleDeployment{}, &fleet.ClusterRegistrationToken{}} {
			whole, got := of.DeepCopyObject(), of.DeepCopyObject()
			wholeErr := kjson.UnmarshalCaseSensitivePreserveInts(raw, whole)
			missing, err := salvage(raw, got)
			switch {
			case wholeErr == nil && (err != nil || len(missing) > 0):
				t.Fatalf("it can be read whole; lost %v, error %v", missing, err)
			case wholeErr == nil:
				if diff := cmp.Diff(whole, got); diff != "" {
					t.Fatalf("read (-whole +salvaged):\n%s", diff)
				}
			case err == nil:
				expectOthersWhole(t, raw, got, missing)
			}
		}
	})
}

// expectOthersWhole decodes a document without the parts that contain undecodable fields, and compares the others.
func expectOthersWhole(t *testing.T, raw []byte, got runtime.Object, missing []lost) {
	t.Helper()
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		t.Fatalf("it is no JSON, and read as %v", got)
	}
	for _, l := range missing {
		delete(parts, partOf(l))
	}
	others, err := json.Marshal(parts)
	want := emptyOf(got)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(others, want)
	}
	if err != nil {
		t.Fatalf("what is lost is not all of %v: %v", missing, err)
	}
	if diff := cmp.Diff(partsOf(t, want, missing), partsOf(t, got, missing)); diff != "" {
		t.Fatalf("read beside %v (-want +got):\n%s", missing, diff)
	}
}

func partOf(l lost) string {
	return strings.FieldsFunc(l.path, func(r rune) bool { return r == '.' || r == '[' })[0]
}

// partsOf returns the parts of an object that contain no undecodable field.
func partsOf(t *testing.T, object runtime.Object, missing []lost) (parts map[string]any) {
	t.Helper()
	encoded, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(encoded, &parts)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range missing {
		delete(parts, partOf(l))
	}
	return parts
}

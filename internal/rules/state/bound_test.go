package state

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// worst makes statuses as no honest agent does.
type worst struct {
	*rand.Rand

	// length is that of each text, count that of each list.
	length, count int
}

// text is made of what takes several bytes, in Go or as JSON, or is no text at all.
func (w worst) text() string {
	pieces := []string{"界", "<", "\"", "\x01", "\xff", "\u2028", "a", "𝄞", "\n"}
	return strings.Repeat(pieces[w.IntN(len(pieces))]+pieces[w.IntN(len(pieces))], w.length/4+1)
}

func (w worst) conditions() (out []genericcondition.GenericCondition) {
	for i := range w.count {
		kind := fmt.Sprint(w.text(), i)
		if i%3 == 0 {
			kind = ownTypes[i/3%len(ownTypes)]
		}
		out = append(out, genericcondition.GenericCondition{
			Type: kind, Status: corev1.ConditionStatus(w.text()), Reason: w.text(), Message: w.text(), LastUpdateTime: w.text(), LastTransitionTime: w.text(),
		})
	}
	return out
}

// fill sets every field: texts and lists as w has them, fewer in lists of lists, and numbers with many digits.
func (w worst) fill(t *testing.T, value reflect.Value) {
	t.Helper()
	inner := worst{w.Rand, w.length, min(w.count, 30)}
	switch into := value.Addr().Interface().(type) {
	case *[]genericcondition.GenericCondition:
		*into = w.conditions()
		return
	case *metav1.Time:
		*into = metav1.Now()
		return
	case *[]fleet.PartitionStatus: // each of them has a summary
		inner.count = 1
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(w.text())
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int64:
		value.SetInt(1 << 62)
	case reflect.Int32:
		value.SetInt(1 << 30)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		w.fill(t, value.Elem())
	case reflect.Struct:
		for i := range value.NumField() {
			w.fill(t, value.Field(i))
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), w.count, w.count))
		for i := range w.count {
			inner.fill(t, value.Index(i))
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for range w.count {
			key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
			inner.fill(t, key)
			inner.fill(t, element)
			value.SetMapIndex(key, element)
		}
	default:
		t.Fatalf("a status has a %s", value.Kind())
	}
}

func (w worst) modified(t *testing.T) (out []fleet.ModifiedStatus) {
	w.fill(t, reflect.ValueOf(&out).Elem())
	return out
}

func (w worst) nonReady(t *testing.T) (out []fleet.NonReadyStatus) {
	w.fill(t, reflect.ValueOf(&out).Elem())
	return out
}

// statuses are one object of each kind with as much in each field of its status as w has, and their budgets.
func (w worst) statuses(t *testing.T) map[runtime.Object]int {
	t.Helper()
	all := map[runtime.Object]int{
		&fleet.Bundle{}: MaxBundleStatus, &fleet.Cluster{}: MaxClusterStatus, &fleet.ClusterGroup{}: MaxClusterGroupStatus,
		&fleet.BundleDeployment{}: MaxBundleDeploymentStatus, &fleet.BundleNamespaceMapping{}: MaxClusterStatus,
		&fleet.ClusterRegistration{}: MaxClusterStatus, &fleet.ClusterRegistrationToken{}: MaxClusterStatus,
	}
	for object := range all {
		if status := reflect.ValueOf(object).Elem().FieldByName("Status"); status.IsValid() {
			w.fill(t, status)
		}
	}
	return all
}

// ownTypes are the types of conditions that the API documents.
var ownTypes = func() (types []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../pkg/apis/fleet.cattle.io/v1alpha1/conditions/conditions.go", nil, parser.SkipObjectResolution)
	if err != nil {
		panic(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				types = append(types, strings.Trim(literal.Value, `"`))
			}
		}
		return true
	})
	return types
}()

func TestConditionTypeOfTheAPI_IsOurs(t *testing.T) {
	if len(ownTypes) < 14 {
		t.Errorf("only %d types: the file was not read", len(ownTypes))
	}
	for _, name := range ownTypes {
		if !isOurs(genericcondition.GenericCondition{Type: name}) {
			t.Errorf("%s is treated as the condition of another controller", name)
		}
	}
}

func TestBound_FitsTheWorstStatusesIntoTheirBudgets(t *testing.T) {
	for seed := range uint64(24) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := worst{random, 1 << random.IntN(13), 1 << random.IntN(7)}
		if seed%4 == 0 {
			w = worst{random, 1 << 19, 1}
		}
		for object, budget := range w.statuses(t) {
			Bound(object)
			encoded, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if len(encoded) > budget || !utf8.Valid(encoded) {
				t.Errorf("seed %d: the status of a %T takes %d bytes of %d; UTF-8: %v", seed, object, len(encoded), budget, utf8.Valid(encoded))
			}
			again := object.DeepCopyObject()
			Bound(again)
			if diff := cmp.Diff(object, again); diff != "" {
				t.Errorf("seed %d: bounded again, a %T differs (-want +got):\n%s", seed, object, diff)
			}
		}
	}
}

func TestSummarize_FitsWhateverAgentsReport(t *testing.T) {
	w := worst{rand.New(rand.NewPCG(1, 1)), 4000, 100}
	var entries []Entry
	for i := range 20 {
		entries = append(entries, Entry{Name: fmt.Sprint(i, w.text()), State: fleet.Modified, Message: w.text(), Modified: w.modified(t), NonReady: w.nonReady(t)})
	}
	summary := Summarize(entries)
	if got := lengthOf(summary); got > MaxBundleStatus/2+16<<10 {
		t.Errorf("a summary takes %d bytes", got)
	}
	for _, listed := range summary.NonReadyResources {
		if !strings.HasSuffix(listed.Message, " more resources are not listed") {
			t.Errorf("message = %q, want one that counts what is left out", listed.Message)
		}
	}
	if len(summary.NonReadyResources) != MaxListed || summary.Modified != 20 {
		t.Errorf("%d are listed of %d", len(summary.NonReadyResources), summary.Modified)
	}
}

// What is no more than usual stays as agents report it.
func TestBound_LeavesWhatFits(t *testing.T) {
	modified := fleet.ModifiedStatus{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: "settings", Patch: `{"data":{"a":"` + strings.Repeat("x", 600) + `"}}`}
	nonReady := fleet.NonReadyStatus{UID: "0b1c7a5e", Kind: "Deployment", APIVersion: "apps/v1", Namespace: "web", Name: "web", Summary: fleet.ResourceSummary{
		State: "updating", Transitioning: true, Message: []string{"Available: 0/1", "ReplicaSet \"web\" is progressing"},
	}}
	bundle := &fleet.Bundle{}
	for i := range MaxListed {
		entry := fleet.NonReadyResource{Name: fmt.Sprint("ws/c-", i), BundleState: fleet.Modified, Message: strings.Repeat("m", 1000)}
		for range 8 {
			entry.ModifiedStatus, entry.NonReadyStatus = append(entry.ModifiedStatus, modified), append(entry.NonReadyStatus, nonReady)
		}
		bundle.Status.Summary.NonReadyResources = append(bundle.Status.Summary.NonReadyResources, entry)
	}
	bundle.Status.Conditions = []genericcondition.GenericCondition{{Type: "Ready", Status: "False", Message: strings.Repeat("m\n", 1000)}}
	for i := range 100 {
		bundle.Status.Partitions = append(bundle.Status.Partitions, fleet.PartitionStatus{Name: fmt.Sprint("p-", i), Count: 10, Unavailable: 1})
	}
	want := bundle.DeepCopy()
	Bound(bundle)
	if diff := cmp.Diff(want, bundle); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestBoundPartitions_SumsUpWhatDoesNotFit(t *testing.T) {
	var all []fleet.PartitionStatus
	for i := range 1000 {
		all = append(all, fleet.PartitionStatus{Name: fmt.Sprint("Partition ", i), Count: 3, Unavailable: 1, Summary: fleet.BundleSummary{
			Ready: 2, Modified: 1, DesiredReady: 3, NonReadyResources: []fleet.NonReadyResource{{Name: "ws/a", BundleState: fleet.Modified}},
		}})
	}
	got := BoundPartitions(all)
	count, unavailable, ready := 0, 0, 0
	for _, p := range got {
		count, unavailable, ready = count+p.Count, unavailable+p.Unavailable, ready+p.Summary.Ready
		if p.Summary.NonReadyResources != nil {
			t.Errorf("%s lists clusters", p.Name)
		}
	}
	if last := got[len(got)-1].Name; last != fmt.Sprintf("%d more partitions", 1000-len(got)+1) || len(got) < 100 {
		t.Errorf("%d partitions, the last is %q", len(got), last)
	}
	if count != 3000 || unavailable != 1000 || ready != 2000 {
		t.Errorf("counts are %d, unavailable %d, ready %d", count, unavailable, ready)
	}
	if len(all[0].Summary.NonReadyResources) != 1 {
		t.Error("the partitions given were changed")
	}
}

// A column that names Clusters is not cut within a name.
func TestBound_KeepsTheNamesOfClustersInAColumn(t *testing.T) {
	group := &fleet.ClusterGroup{}
	group.Status.Display.ReadyClusters = "0/11 (" + strings.Repeat(strings.Repeat("c", 63)+",", MaxListed) + "...)"
	want := group.DeepCopy()
	Bound(group)
	if diff := cmp.Diff(want, group); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

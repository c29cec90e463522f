package bundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const ownValues = `{"f:data":{".":{},"f:values":{},"f:stagedValues":{}}}`

func managing(manager, fields string) metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate}
	if fields != "" {
		entry.FieldsV1 = metav1.NewFieldsV1(fields)
	}
	return entry
}

func TestEditedByOthers(t *testing.T) {
	const values, more = ownValues, `{"f:data":{"f:more":{}}}`
	type entries = []metav1.ManagedFieldsEntry
	tests := map[string]struct {
		entries entries
		want    bool
	}{
		"written by this process":                 {entries{managing("own", values)}, false},
		"written by another implementation's hub": {entries{managing("fleetcontroller", values)}, false},
		"labels written by another client":        {entries{managing("own", values), managing("kubectl", `{"f:metadata":{"f:labels":{"f:a":{}}}}`)}, false},
		"values written by another client":        {entries{managing("own", `{"f:type":{}}`), managing("kubectl", values)}, true},
		"a key added by another client":           {entries{managing("own", values), managing("kubectl", more)}, true},
		"the values removed by another client":    {entries{managing("own", `{"f:data":{".":{},"f:stagedValues":{}}}`)}, true},
		"without managed fields":                  {nil, true},
		"managed fields that cannot be read":      {entries{managing("own", values), managing("kubectl", `{`)}, false},
		"an entry without fields beside one with": {entries{managing("kubectl", ""), managing("own", values)}, false},
		"no data fields at all":                   {entries{managing("own", `{"f:data":{}}`)}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := editedByOthers(test.entries, "own"); got != test.want {
				t.Errorf("edited: %t", got)
			}
		})
	}
}

func TestManagerOf(t *testing.T) {
	for agent, want := range map[string]string{"fleetcontroller/v1 (linux)": "fleetcontroller", "me": "me"} {
		if got := managerOf(&rest.Config{UserAgent: agent}); got != want {
			t.Errorf("%q: %q", agent, got)
		}
	}
	if managerOf(&rest.Config{}) == "" {
		t.Error("no manager without a user agent")
	}
}

func TestSecretsThatWereDamagedBefore_AreComparedAtStart(t *testing.T) {
	noValues := valued("none")
	noValues.Spec.ValuesHash = ""
	g := &guard{own: "own"}
	var secrets []any
	for _, one := range []struct{ cluster, manager string }{{"fine", "own"}, {"edited", "kubectl-edit"}} {
		secrets = append(secrets, g.slim(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "c-" + one.cluster, Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{managing(one.manager, ownValues)},
		}}))
	}
	want := []types.NamespacedName{{Namespace: "c-edited", Name: "web"}, {Namespace: "c-deleted", Name: "web"}}
	got := damaged(secrets, []*fleet.BundleDeployment{valued("fine"), valued("edited"), valued("deleted"), noValues})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

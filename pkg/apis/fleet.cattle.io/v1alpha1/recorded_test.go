package v1alpha1_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// recordedKinds is the number of recorded objects of each kind. The tests below would not notice missing objects.
var recordedKinds = map[string]int{
	"Bundle":                   5,
	"BundleDeployment":         6,
	"Cluster":                  3,
	"ClusterGroup":             2,
	"ClusterRegistration":      3,
	"ClusterRegistrationToken": 3,
	"Content":                  4,
}

// harmless are the differences between a recorded object and our encoding of it that do not matter to any reader. Each must
// occur at least once.
var harmless = []struct {
	why     string
	pattern string
}{
	{"counts of resources are always written; the recorded agent left zeros out",
		`^BundleDeployment\.status\.resourceCounts\.\w+: <absent> -> 0$`},
	{"ready and desiredReady are always written; a patch of changes leaves zeros out",
		`^(Bundle|Cluster|ClusterGroup)\.status\.summary\.(ready|desiredReady): <absent> -> 0$`},
	{"the numbers of a rollout are always written; a patch of changes leaves zeros out",
		`^Bundle\.status\.(unavailablePartitions|maxUnavailablePartitions): <absent> -> 0$`},
	{"no annotations are written as none",
		`^\w+\.metadata\.annotations: map\[\] -> <absent>$`},
	{"a duration is written in its long form",
		`^ClusterRegistrationToken\.spec\.ttl: 24h -> 24h0m0s$`},
}

func TestRecordedObjects_AreComplete(t *testing.T) {
	got := map[string]int{}
	for _, doc := range recordedObjects(t) {
		got[doc.kind()]++
	}
	if diff := cmp.Diff(recordedKinds, got); diff != "" {
		t.Errorf("recorded objects of each kind (-want +got):\n%s", diff)
	}
}

func TestRecordedObjects_DecodeWithoutLoss(t *testing.T) {
	scheme := newScheme(t)
	used := map[string]bool{}
	for _, doc := range recordedObjects(t) {
		t.Run(doc.kind()+"/"+doc.metadata(), func(t *testing.T) {
			object := decodeStrictly(t, scheme, doc)
			ours, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			for _, difference := range differences(doc.kind(), doc.object, parse(t, ours)) {
				if why := harmlessBecause(difference); why != "" {
					used[why] = true
					continue
				}
				t.Errorf("%s: %s", doc.where, difference)
			}
		})
	}
	for _, rule := range harmless {
		if !used[rule.why] {
			t.Errorf("listed as harmless, but does not occur: %s", rule.why)
		}
	}
}

func TestDecodedObjects_RoundTripUnchanged(t *testing.T) {
	scheme := newScheme(t)
	for _, doc := range recordedObjects(t) {
		t.Run(doc.kind()+"/"+doc.metadata(), func(t *testing.T) {
			first := decodeStrictly(t, scheme, doc)
			text, err := json.Marshal(first)
			if err != nil {
				t.Fatal(err)
			}
			second := decodeStrictly(t, scheme, document{where: "our own JSON", text: text, object: parse(t, text)})
			if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("written and read again (-first +second):\n%s", diff)
			}
			if diff := cmp.Diff(first, first.DeepCopyObject()); diff != "" {
				t.Errorf("copied (-original +copy):\n%s", diff)
			}
		})
	}
}

func TestUnknownField_IsReported(t *testing.T) {
	tests := map[string]struct{ object, want string }{
		"top level": {
			`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Content","contents":"eA=="}`,
			`unknown field "contents"`,
		},
		"other case": {
			`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster","spec":{"clientId":"x"}}`,
			`unknown field "spec.clientId"`,
		},
		"inlined options": {
			`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Bundle","spec":{"targets":[{"helm":{"value":{}}}]}}`,
			`unknown field "spec.targets[0].helm.value"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			doc := document{text: []byte(test.object), object: parse(t, []byte(test.object))}
			problems, err := kjson.UnmarshalStrict(doc.text, newObject(t, newScheme(t), doc.kind()))
			if err != nil {
				t.Fatal(err)
			}
			if len(problems) != 1 || problems[0].Error() != test.want {
				t.Errorf("got %v, want %s", problems, test.want)
			}
		})
	}
}

func harmlessBecause(difference string) string {
	for _, rule := range harmless {
		if regexp.MustCompile(rule.pattern).MatchString(difference) {
			return rule.why
		}
	}
	return ""
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := fleet.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func newObject(t *testing.T, scheme *runtime.Scheme, kind string) runtime.Object {
	t.Helper()
	object, err := scheme.New(fleet.SchemeGroupVersion.WithKind(kind))
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// decodeStrictly fails on fields our types do not have, and on fields given twice.
func decodeStrictly(t *testing.T, scheme *runtime.Scheme, doc document) runtime.Object {
	t.Helper()
	object := newObject(t, scheme, doc.kind())
	problems, err := kjson.UnmarshalStrict(doc.text, object)
	if err != nil {
		t.Fatalf("%s: %v", doc.where, err)
	}
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Error())
	}
	if len(texts) > 0 {
		t.Errorf("%s: %s", doc.where, strings.Join(texts, ", "))
	}
	return object
}

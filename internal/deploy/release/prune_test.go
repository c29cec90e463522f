package release

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
)

// having returns a revision with the given ConfigMaps.
func having(number int, status release.Status, names ...string) *release.Release {
	r := stored(number, status)
	r.Manifest = ""
	for _, name := range names {
		r.Manifest += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n", name)
	}
	return r
}

// saying returns a revision with one ConfigMap that has these data.
func saying(number int, status release.Status, data string) *release.Release {
	r := having(number, status, "a")
	r.Manifest += "data: {" + data + "}\n"
	return r
}

func TestFailedRevisions(t *testing.T) {
	const (
		deployed   = release.StatusDeployed
		failed     = release.StatusFailed
		superseded = release.StatusSuperseded
	)
	var many []*release.Release
	for i := range mostFailed + 2 {
		many = append(many, having(i+2, failed, fmt.Sprint("object-", i)))
	}
	random := []*release.Release{having(1, deployed), having(2, failed, "a", "b")}
	for i := range mostFailed {
		random = append(random, saying(i+3, failed, fmt.Sprintf("password: p%d", i)))
	}
	tests := map[string]struct {
		history []*release.Release
		want    []int
		most    int
	}{
		"no failure":                       {[]*release.Release{having(1, superseded, "a"), having(2, deployed, "a")}, []int{1, 2}, 2},
		"a failure":                        {[]*release.Release{having(1, deployed, "a"), having(2, failed, "a", "b")}, []int{1, 2}, 3},
		"failures with different objects":  {[]*release.Release{having(1, deployed, "a"), having(2, failed, "a", "b"), having(3, failed, "a", "c")}, []int{1, 2, 3}, 4},
		"a retry":                          {[]*release.Release{having(1, deployed, "a"), having(2, failed, "a", "b"), having(3, failed, "b", "a")}, []int{1, 3}, 3},
		"objects of two later failures":    {[]*release.Release{having(1, deployed), having(2, failed, "a", "b"), having(3, failed, "a"), having(4, failed, "b")}, []int{1, 3, 4}, 4},
		"failures before the deployed one": {[]*release.Release{having(1, failed, "a"), having(2, deployed, "a")}, []int{1, 2}, 2},
		"failures from the start":          {[]*release.Release{having(1, failed, "a"), having(2, failed, "a"), having(3, failed, "b")}, []int{2, 3}, 3},
		"an interrupted operation":         {[]*release.Release{having(1, deployed), having(2, release.StatusPendingUpgrade, "a"), having(3, failed, "a")}, []int{1, 2, 3}, 4},
		"a failure with another field":     {[]*release.Release{having(1, deployed), saying(2, failed, "x: y"), saying(3, failed, "")}, []int{1, 2, 3}, 4},
		"a retry with the same fields":     {[]*release.Release{having(1, deployed), saying(2, failed, "x: y, z: y"), saying(3, failed, "z: y, x: y")}, []int{1, 3}, 3},
		"too many retries of other fields": {random, []int{1, 2, mostFailed + 2}, 4},
		"too many failures":                {append([]*release.Release{having(1, deployed)}, many...), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, mostFailed + 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := historyOf(t, fake.NewClientset(), test.history...)
			most, err := h.makeRoom(defaultHistory)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, r := range h.revisions {
				got = append(got, r.Version)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("revisions:\n%s", diff)
			}
			if most != test.most {
				t.Errorf("most %d, want %d", most, test.most)
			}
		})
	}
}

func TestContentOf_SameForSameJSON(t *testing.T) {
	of := func(data any) string {
		return manifest.Content(&unstructured.Unstructured{Object: map[string]any{"data": data}})
	}
	if of(int64(1000000)) != of(float64(1000000)) {
		t.Error("the Go type of a number makes another object")
	}
	if of("1") == of(int64(1)) || of([]any{}) == of(nil) {
		t.Error("different objects have the same content")
	}
}

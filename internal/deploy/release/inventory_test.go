package release

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

func TestInventory(t *testing.T) {
	i := NewInventory()
	a, b, c := placement.Release{Namespace: "web", Name: "a"}, placement.Release{Namespace: "web", Name: "b"}, placement.Release{Namespace: "db", Name: "z"}
	i.Add("x", b)
	i.Add("x", a)
	i.Add("x", c)
	i.Add("x", a)
	i.Add("y", a)
	if diff := cmp.Diff([]placement.Release{c, a, b}, i.Of("x")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]placement.Release{c, b}, i.Except("x", a)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x", "y"}, i.Names()); diff != "" {
		t.Error(diff)
	}
	i.Remove("y", a)
	i.Remove("y", a)
	if diff := cmp.Diff([]string{"x"}, i.Names()); diff != "" || !i.Owns(a) || i.Owns(placement.Release{Namespace: "web", Name: "q"}) {
		t.Error(diff)
	}
	i.SetForeign(a, "7")
	if !i.IsForeign(a, "7") || i.IsForeign(a, "8") || i.IsForeign(b, "") {
		t.Error("a release must be foreign at exactly the checked version")
	}
}

func TestRevisionSecrets_NewestIsRecorded(t *testing.T) {
	secret := func(name, release, version, owner string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, ResourceVersion: "r" + version,
			Labels: map[string]string{"name": release, "version": version, "owner": owner}}}
	}
	newest := map[placement.Release]RevisionSecret{}
	for _, s := range []*metav1.PartialObjectMetadata{
		secret("a9", "a", "9", "helm"), secret("a10", "a", "10", "helm"), secret("a2", "a", "2", "helm"),
		secret("b1", "b", "1", "helm"), secret("no", "c", "1", "somebody"), secret("no", "", "1", "helm"), secret("no", "d", "x", "helm"), secret("no", "e", "0", "helm"),
	} {
		note(newest, s)
	}
	want := map[placement.Release]RevisionSecret{
		{Namespace: "web", Name: "a"}: {secret: "a10", ResourceVersion: "r10", number: 10}, {Namespace: "web", Name: "b"}: {secret: "b1", ResourceVersion: "r1", number: 1},
	}
	if diff := cmp.Diff(want, newest, cmp.AllowUnexported(RevisionSecret{})); diff != "" {
		t.Error(diff)
	}
}

package deploy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInventory(t *testing.T) {
	i := newInventory()
	a, b, c := releaseKey{"web", "a"}, releaseKey{"web", "b"}, releaseKey{"db", "z"}
	i.add("x", b)
	i.add("x", a)
	i.add("x", c)
	i.add("x", a)
	i.add("y", a)
	if diff := cmp.Diff([]releaseKey{c, a, b}, i.of("x")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]releaseKey{c, b}, i.except("x", a)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x", "y"}, i.names()); diff != "" {
		t.Error(diff)
	}
	i.remove("y", a)
	i.remove("y", a)
	if diff := cmp.Diff([]string{"x"}, i.names()); diff != "" || !i.owns(a) || i.owns(releaseKey{"web", "q"}) {
		t.Error(diff)
	}
	i.setForeign(a, "7")
	if !i.isForeign(a, "7") || i.isForeign(a, "8") || i.isForeign(b, "") {
		t.Error("a release must be foreign at exactly the checked version")
	}
}

func TestRevisionSecrets_NewestIsRecorded(t *testing.T) {
	secret := func(name, release, version, owner string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, ResourceVersion: "r" + version,
			Labels: map[string]string{"name": release, "version": version, "owner": owner}}}
	}
	newest := map[releaseKey]revisionSecret{}
	for _, s := range []*metav1.PartialObjectMetadata{
		secret("a9", "a", "9", "helm"), secret("a10", "a", "10", "helm"), secret("a2", "a", "2", "helm"),
		secret("b1", "b", "1", "helm"), secret("no", "c", "1", "somebody"), secret("no", "", "1", "helm"), secret("no", "d", "x", "helm"), secret("no", "e", "0", "helm"),
	} {
		note(newest, s)
	}
	want := map[releaseKey]revisionSecret{
		{"web", "a"}: {secret: "a10", resourceVersion: "r10", number: 10}, {"web", "b"}: {secret: "b1", resourceVersion: "r1", number: 1},
	}
	if diff := cmp.Diff(want, newest, cmp.AllowUnexported(revisionSecret{})); diff != "" {
		t.Error(diff)
	}
}

package release

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

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

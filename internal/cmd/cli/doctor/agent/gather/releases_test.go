package gather

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

func TestReadReleases_ReturnsTheNewestRevisionsOfFleet(t *testing.T) {
	secret := func(namespace, name, status string, revision int, seal string) *metav1.PartialObjectMetadata {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision), CreationTimestamp: clitest.Ago(time.Hour)}
		meta.Labels = map[string]string{"owner": "helm", "name": name, "status": status, "version": fmt.Sprint(revision), "modifiedAt": fmt.Sprint(clitest.Noon().Unix())}
		if seal != "" {
			meta.Annotations = map[string]string{"fleet.cattle.io/release-seal": seal}
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: meta}
	}
	broken := secret("app", "b", "deployed", 9, "")
	broken.Labels["version"] = "x"
	got := newestReleases([]*metav1.PartialObjectMetadata{
		secret("app", "b", "superseded", 1, "s"), secret("app", "b", "pending-upgrade", 2, ""), broken,
		secret("app", "of-helm", "pending-install", 1, ""), secret(system, names.Agent, "deployed", 10, ""), secret(system, names.Agent, "superseded", 9, ""),
	}, system)
	if len(got) != 2 || got[0].Secret != "sh.helm.release.v1.b.v2" || got[0].Status != "pending-upgrade" || !got[0].Since.Equal(clitest.Noon()) || got[1].Revision != 10 {
		t.Errorf("releases: %+v", got)
	}
}

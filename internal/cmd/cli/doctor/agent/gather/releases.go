package gather

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// newestReleases returns the newest revisions of the releases in the metadata of Helm's Secrets. Releases of others are left
// out: Fleet's have the seal of the agent in one of their revisions, or are the agent's own, in this namespace.
func newestReleases(secrets []*metav1.PartialObjectMetadata, namespace string) (newest []agent.Release) {
	ours, last := map[types.NamespacedName]bool{}, map[types.NamespacedName]int{}
	var all []agent.Release
	for _, secret := range secrets {
		key := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Labels["name"]}
		number, err := strconv.Atoi(secret.Labels["version"])
		if err != nil || key.Name == "" || secret.Labels["owner"] != "helm" {
			continue
		}
		own := key.Namespace == namespace && key.Name == names.Agent
		ours[key] = ours[key] || own || secret.Annotations[annotation.ReleaseSeal] != ""
		last[key] = max(last[key], number)
		all = append(all, agent.Release{
			Namespace: key.Namespace, Name: key.Name, Status: secret.Labels["status"], Revision: number, Secret: secret.Name, Since: changed(secret),
		})
	}
	for _, one := range all {
		if key := (types.NamespacedName{Namespace: one.Namespace, Name: one.Name}); ours[key] && last[key] == one.Revision {
			newest = append(newest, one)
		}
	}
	return newest
}

// changed returns when Helm has written a revision last.
func changed(secret *metav1.PartialObjectMetadata) time.Time {
	for _, label := range []string{"modifiedAt", "createdAt"} {
		if seconds, err := strconv.ParseInt(secret.Labels[label], 10, 64); err == nil {
			return time.Unix(seconds, 0)
		}
	}
	return secret.CreationTimestamp.Time
}

package clonedcluster

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	// alternationWindow is how long the hub remembers which pods have recovered a Cluster.
	alternationWindow = 24 * time.Hour
	// maxRecoveredBy is the maximum size in bytes of the record of them, which has two entries of at most 84.
	maxRecoveredBy = 256
)

// Alternating returns two pods that recover a Cluster in turn, if this request is the third of such recoveries. They
// have the same key: one cluster is a copy of the other. A pod is what the holder of the key claims. So this finds
// copies, and not a thief of the key who claims the name of the agent's pod.
func Alternating(request *fleet.ClusterRegistration, cluster *fleet.Cluster, now time.Time) []string {
	last := recoveriesOf(cluster, now)
	if pod := podOf(request); len(last) < 2 || pod != last[0].pod || pod == last[1].pod {
		return nil
	}
	return []string{last[0].pod, last[1].pod}
}

// Record returns what to record on a Cluster when its agent uses the answer to a recovery request, or "". The answer
// can be used only with the key. Before that, any client could repeat an old request and name another pod in it.
func Record(request *fleet.ClusterRegistration, cluster *fleet.Cluster, now time.Time) string {
	this := recovered{podOf(request), request.CreationTimestamp.Time}
	if !requests.IsRecovery(request) || this.pod == "" || !now.Before(this.at.Add(alternationWindow)) {
		return ""
	}
	last := recoveriesOf(cluster, now)
	if len(last) == 0 {
		return this.String()
	}
	previous := last[len(last)-1]
	if previous.pod == this.pod || !this.at.After(previous.at) {
		return "" // recorded, or replaced since
	}
	return previous.String() + "," + this.String()
}

// podOf returns the pod of a recovery request, as its client claims it, or "".
func podOf(request *fleet.ClusterRegistration) string {
	if pod := request.Spec.ClusterLabels[fleet.LabelCreatedByAgentPod]; isPodName(pod) {
		return pod
	}
	return ""
}

// isPodName reports whether a text from elsewhere may be the name of a pod that an agent reports as a label. Others are
// neither compared nor repeated in messages.
func isPodName(text string) bool {
	return len(text) <= validation.DNS1123LabelMaxLength && len(validation.IsDNS1123Subdomain(text)) == 0
}

// recovered is a recovery of a Cluster: the pod that its request names, and when the request was created.
type recovered struct {
	pod string
	at  time.Time
}

func (r recovered) String() string { return r.pod + "=" + r.at.UTC().Format(time.RFC3339) }

// recoveriesOf returns the last two recoveries of a Cluster that are recorded, the last one last. A user of the workspace
// may have written the record.
func recoveriesOf(cluster *fleet.Cluster, now time.Time) (found []recovered) {
	record := cluster.Annotations[annotation.RecoveredBy]
	if len(record) > maxRecoveredBy {
		return nil
	}
	for _, entry := range strings.Split(record, ",") {
		pod, text, _ := strings.Cut(entry, "=")
		if at, err := time.Parse(time.RFC3339, text); err == nil && isPodName(pod) && now.Before(at.Add(alternationWindow)) {
			found = append(found, recovered{pod, at})
		}
	}
	return found[max(0, len(found)-2):]
}

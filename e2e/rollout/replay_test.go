package rollout_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// auditPolicy logs what became of BundleDeployments, in whole.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources:
  - {group: fleet.cattle.io, resources: [bundledeployments, bundledeployments/status]}
- level: None
`

// taken is a write that the API server took: what the object was afterwards.
type taken struct {
	version uint64
	fleet.BundleDeployment
}

// readTaken reads the writes of one Bundle's BundleDeployments from an audit log, in the order in which the API server
// took them. Its lines are in the order in which the answers were sent, which is another one where writes are under way
// together.
func readTaken(path, bundle string) ([]taken, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []taken
	text = text[:bytes.LastIndexByte(text, '\n')+1] // but for what is being written
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var event struct {
			Response struct {
				Code int `json:"code"`
			} `json:"responseStatus"`
			Object json.RawMessage `json:"responseObject"`
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("reading a line of the audit log: %w", err)
		}
		if event.Response.Code >= 300 {
			continue
		}
		var write taken
		if err := json.Unmarshal(event.Object, &write.BundleDeployment); err != nil {
			return nil, fmt.Errorf("reading a BundleDeployment of the audit log: %w", err)
		}
		if write.Name != bundle || write.Kind != "BundleDeployment" {
			continue
		}
		if write.version, err = strconv.ParseUint(write.ResourceVersion, 10, 64); err != nil {
			return nil, err
		}
		out = append(out, write)
	}
	slices.SortStableFunc(out, func(a, b taken) int { return cmp.Compare(a.version, b.version) })
	return out, lines.Err()
}

// replayed is what the writes of a rollout show.
type replayed struct {
	// promotions are those of clusters that were available; recoveries those of others, firsts are creations.
	promotions, recoveries, firsts int
	// most is how many clusters were unavailable at a time; promotedAt how many at most when one more was promoted.
	most, promotedAt int
	// violations are promotions of available clusters that a limit did not allow.
	violations []string
}

// replay goes through writes in order. limit is for all clusters; partitions have a limit each, and say which clusters
// are in them.
func replay(writes []taken, limit, partitionLimit int, partitionOf func(cluster string) int) replayed {
	var out replayed
	available := map[string]bool{}
	deploymentIDs := map[string]string{}
	unavailable, within := 0, map[int]int{}
	for _, w := range writes {
		cluster := w.Labels[fleet.LabelCluster]
		partition := partitionOf(cluster)
		before, known := deploymentIDs[cluster]
		switch {
		case !known:
			out.firsts++
		case before == w.Spec.DeploymentID:
		case !available[cluster]:
			out.recoveries++
		default:
			out.promotions++
			out.promotedAt = max(out.promotedAt, unavailable)
			if unavailable >= limit || within[partition] >= partitionLimit {
				out.violations = append(out.violations, fmt.Sprintf("%s promoted at %d, with %d of %d unavailable, and %d of %d in partition %d",
					cluster, w.version, unavailable, limit, within[partition], partitionLimit, partition))
			}
		}
		now := w.Status.Ready && w.Status.AppliedDeploymentID == w.Spec.DeploymentID
		if was := known && !available[cluster]; was != !now {
			change := 1
			if now {
				change = -1
			}
			unavailable += change
			within[partition] += change
		}
		deploymentIDs[cluster], available[cluster] = w.Spec.DeploymentID, now
		out.most = max(out.most, unavailable)
	}
	return out
}

// The judge has to see what it is there for.
func TestReplay(t *testing.T) {
	version := uint64(0)
	write := func(cluster, id, applied string, ready bool) taken {
		version++
		w := taken{version: version}
		w.Labels = map[string]string{fleet.LabelCluster: cluster}
		w.Spec.DeploymentID, w.Status.AppliedDeploymentID, w.Status.Ready = id, applied, ready
		return w
	}
	deployed := func(clusters ...string) (out []taken) {
		for _, cluster := range clusters {
			out = append(out, write(cluster, "1", "", false), write(cluster, "1", "1", true))
		}
		return out
	}
	partition := func(cluster string) int { return int(cluster[0] - 'a') }
	tests := map[string]struct {
		writes     []taken
		violations int
		promotions int
	}{
		"one after the other":            {append(deployed("a1", "b1"), write("a1", "2", "1", true), write("a1", "2", "2", true), write("b1", "2", "1", true)), 0, 2},
		"up to the limit":                {append(deployed("a1", "b1"), write("a1", "2", "1", true), write("b1", "2", "1", true)), 0, 2},
		"one more than the limit":        {append(deployed("a1", "b1", "c1"), write("a1", "2", "1", true), write("b1", "2", "1", true), write("c1", "2", "1", true)), 1, 3},
		"two of a partition":             {append(deployed("a1", "a2"), write("a1", "2", "1", true), write("a2", "2", "1", true)), 1, 2},
		"one that failed by itself":      {append(deployed("a1", "a2"), write("a1", "1", "1", false), write("a2", "2", "1", true)), 1, 1},
		"what is unavailable may":        {append(deployed("a1", "a2"), write("a1", "1", "1", false), write("a1", "2", "1", false)), 0, 0},
		"what is staged is no promotion": {append(deployed("a1", "a2"), write("a1", "1", "1", true)), 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := replay(test.writes, 2, 1, partition)
			if len(got.violations) != test.violations || got.promotions != test.promotions {
				t.Errorf("%d violations, %d promotions; want %d, %d: %q", len(got.violations), got.promotions, test.violations, test.promotions, got.violations)
			}
		})
	}
}

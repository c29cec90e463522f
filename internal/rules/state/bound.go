package state

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cut"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Size limits, as JSON, of the statuses that we write, independent of what agents report. The store of an API server
// accepts 1.5 MiB for a whole object.
const (
	// MaxBundleStatus and the following are the size limits of a whole status.
	MaxBundleStatus           = 256 << 10
	MaxClusterStatus          = 256 << 10
	MaxClusterGroupStatus     = 256 << 10
	MaxBundleDeploymentStatus = 512 << 10

	// maxConditions limits the number of conditions in a list, ours included.
	maxConditions = 24
	// maxOthersMessage limits the message of a condition of a foreign type. It applies if the messages of all such
	// conditions together are longer than one of ours may be.
	maxOthersMessage = 512
	// maxPartitions limits the size of a Bundle's partitions, and maxKeys that of its resource keys.
	maxPartitions = 20 << 10
	maxKeys       = 20 << 10
	// maxListedMessage limits the message of an entry in a summary, and maxResources the size of its resources.
	maxListedMessage = 2 << 10
	maxResources     = 10 << 10
	// maxPatch, maxStateMessages and maxStateMessage apply to one resource.
	maxPatch         = 1 << 10
	maxStateMessages = 8
	maxStateMessage  = 256
	// maxDisplayed limits a message in a printer column.
	maxDisplayed = 1 << 10
	// maxName limits names. maxWord limits words from a fixed set, in case a client writes something else.
	maxName = 320
	maxWord = 64
	// maxDeployed limits the list of deployed resources in the status of a BundleDeployment.
	maxDeployed = 256 << 10
)

// BoundConditions cuts the conditions of an object to the size limits. If there are too many, conditions of our own
// types are kept first. A condition of ours that conditions.Set has set stays unchanged.
func BoundConditions(list []genericcondition.GenericCondition) []genericcondition.GenericCondition {
	if len(list) > maxConditions {
		list = fewer(list)
	}
	others := 0
	for _, c := range list {
		if !isOurs(c) {
			others += cut.Length(c.Message)
		}
	}
	for i := range list {
		c := &list[i]
		cutAll(maxName, &c.Type, &c.Reason)
		cutAll(maxWord, (*string)(&c.Status), &c.LastUpdateTime, &c.LastTransitionTime)
		limit := conditions.MaxMessage
		if !isOurs(*c) && others > conditions.MaxMessage {
			limit = maxOthersMessage
		}
		c.Message = cut.Text(c.Message, limit)
	}
	return list
}

// fewer keeps the first condition of each of our types, and the first of all others.
func fewer(list []genericcondition.GenericCondition) (kept []genericcondition.GenericCondition) {
	seen, ours := map[string]bool{}, 0
	for _, c := range list {
		if isOurs(c) && !seen[c.Type] {
			seen[c.Type] = true
			ours++
		}
	}
	clear(seen)
	others := maxConditions - ours
	for _, c := range list {
		switch {
		case isOurs(c) && !seen[c.Type]:
			seen[c.Type] = true
		case isOurs(c) || others == 0:
			continue
		default:
			others--
		}
		kept = append(kept, c)
	}
	return kept
}

func isOurs(c genericcondition.GenericCondition) bool {
	switch c.Type {
	case conditions.Ready, conditions.Processed, conditions.Imported, conditions.Reconciled,
		conditions.AddressKnown, conditions.AgentManaged, conditions.AgentReporting, conditions.FollowsClusterAPI,
		conditions.Partitioned, conditions.TargetsKnown, conditions.TargetsAccepted, conditions.Granted,
		conditions.Deployed, conditions.Installed, conditions.Monitored:
		return true
	}
	return false
}

func cutAll(limit int, texts ...*string) {
	for _, text := range texts {
		*text = cut.Text(*text, limit)
	}
}

// BoundSummary cuts the list of a summary, which another client may have written.
func BoundSummary(summary fleet.BundleSummary) fleet.BundleSummary {
	if len(summary.NonReadyResources) == 0 {
		return summary
	}
	listed := slices.Clone(summary.NonReadyResources[:min(MaxListed, len(summary.NonReadyResources))])
	for i := range listed {
		listed[i] = boundListed(listed[i])
	}
	summary.NonReadyResources = listed
	return summary
}

// boundListed cuts one entry of a summary. The message ends with the number of resources that do not fit. Cutting the
// result again does not change it.
func boundListed(listed fleet.NonReadyResource) fleet.NonReadyResource {
	listed.Name = cut.Text(listed.Name, maxName)
	listed.BundleState = fleet.BundleState(cut.Text(string(listed.BundleState), maxWord))
	room := maxResources
	modified, nonReady := boundResources(listed.ModifiedStatus, listed.NonReadyStatus, &room, maxPatch)
	left := len(listed.ModifiedStatus) + len(listed.NonReadyStatus) - len(modified) - len(nonReady)
	listed.ModifiedStatus, listed.NonReadyStatus = modified, nonReady
	if left == 0 {
		listed.Message = cut.Text(listed.Message, maxListedMessage)
		return listed
	}
	rest := fmt.Sprintf("%d more resources are not listed", left)
	if listed.Message != "" {
		rest = cut.Text(listed.Message, maxListedMessage-2-len(rest)) + "; " + rest
	}
	listed.Message = rest
	return listed
}

// boundResources cuts each list of resources to ten entries and to the remaining room. It subtracts the used room.
func boundResources(modified []fleet.ModifiedStatus, nonReady []fleet.NonReadyStatus, room *int, patch int) ([]fleet.ModifiedStatus, []fleet.NonReadyStatus) {
	return boundList(modified, room, func(m fleet.ModifiedStatus) fleet.ModifiedStatus {
			cutAll(maxWord, &m.Kind)
			cutAll(maxName, &m.APIVersion, &m.Namespace, &m.Name)
			m.Patch = cut.Text(m.Patch, patch)
			return m
		}, func(m fleet.ModifiedStatus) int {
			return 160 + cut.Length(m.Kind) + cut.Length(m.APIVersion) + cut.Length(m.Namespace) + cut.Length(m.Name) + cut.Length(m.Patch)
		}), boundList(nonReady, room, func(n fleet.NonReadyStatus) fleet.NonReadyStatus {
			cutAll(maxWord, &n.Kind, &n.Summary.State)
			cutAll(maxName, &n.APIVersion, &n.Namespace, &n.Name)
			n.UID = types.UID(cut.Text(string(n.UID), maxWord))
			n.Summary.Message = boundTexts(n.Summary.Message, maxStateMessages, maxStateMessage)
			return n
		}, func(n fleet.NonReadyStatus) int {
			sum := 200 + cut.Length(string(n.UID)) + cut.Length(n.Kind) + cut.Length(n.APIVersion) + cut.Length(n.Namespace) +
				cut.Length(n.Name) + cut.Length(n.Summary.State)
			for _, text := range n.Summary.Message {
				sum += 3 + cut.Length(text)
			}
			return sum
		})
}

func boundTexts(texts []string, most, limit int) []string {
	if len(texts) == 0 {
		return texts
	}
	texts = slices.Clone(texts[:min(most, len(texts))])
	for i := range texts {
		texts[i] = cut.Text(texts[i], limit)
	}
	return texts
}

// boundList returns the first entries of a list, each of them cut: up to ten, and as many as fit into the remaining
// room.
func boundList[T any](list []T, room *int, bound func(T) T, length func(T) int) []T {
	if len(list) == 0 {
		return list
	}
	var out []T
	for _, item := range list[:min(MaxListed, len(list))] {
		item = bound(item)
		if *room -= length(item); *room < 0 {
			*room = 0
			break
		}
		out = append(out, item)
	}
	return out
}

// BoundPartitions cuts the partitions of a Bundle to the size limit. If they are too large, the lists in their
// summaries are dropped, and the last partitions are combined into one.
func BoundPartitions(partitions []fleet.PartitionStatus) []fleet.PartitionStatus {
	if lengthOf(partitions) <= maxPartitions {
		return partitions
	}
	var out []fleet.PartitionStatus
	room := maxPartitions - 1024 // the rest is for the combined partition
	for i, partition := range partitions {
		partition.Name = cut.Text(partition.Name, maxName)
		partition.Summary.NonReadyResources = nil
		if room -= 1 + lengthOf(partition); room < 0 {
			return append(out, sumOf(partitions[i:]))
		}
		out = append(out, partition)
	}
	return out
}

// sumOf combines several partitions into one.
func sumOf(partitions []fleet.PartitionStatus) fleet.PartitionStatus {
	sum := fleet.PartitionStatus{Name: fmt.Sprintf("%d more partitions", len(partitions))}
	for _, p := range partitions {
		sum.Count, sum.MaxUnavailable, sum.Unavailable = sum.Count+p.Count, sum.MaxUnavailable+p.MaxUnavailable, sum.Unavailable+p.Unavailable
		sum.Summary = Add(sum.Summary, p.Summary)
	}
	sum.Summary.NonReadyResources = nil
	return sum
}

// lengthOf returns the length of a value as JSON.
func lengthOf(value any) int {
	encoded, err := json.Marshal(value)
	if err != nil {
		return 0 // the fields of a status always encode
	}
	return len(encoded)
}

// Bound cuts each field of an object's status to its size limit, independent of the client that wrote it. It ignores
// objects of other kinds.
func Bound(object any) {
	switch o := object.(type) {
	case *fleet.Bundle:
		boundBundle(&o.Status)
	case *fleet.Cluster:
		boundCluster(&o.Status)
	case *fleet.ClusterGroup:
		o.Status.Conditions = BoundConditions(o.Status.Conditions)
		o.Status.Summary = BoundSummary(o.Status.Summary)
		o.Status.NonReadyClusters = boundTexts(o.Status.NonReadyClusters, MaxListed, maxName)
		cutAll(maxWord, &o.Status.Display.State, &o.Status.Display.ReadyBundles)
		cutAll((MaxListed+1)*maxName, &o.Status.Display.ReadyClusters) // it contains names
	case *fleet.ClusterRegistration:
		o.Status.Conditions = BoundConditions(o.Status.Conditions)
		cutAll(maxName, &o.Status.ClusterName)
	case *fleet.ClusterRegistrationToken:
		o.Status.Conditions = BoundConditions(o.Status.Conditions)
		cutAll(maxName, &o.Status.SecretName)
	case *fleet.BundleDeployment:
		BoundDeployment(&o.Status)
	}
}

func boundBundle(status *fleet.BundleStatus) {
	status.Conditions = BoundConditions(status.Conditions)
	status.Summary = BoundSummary(status.Summary)
	status.Partitions = BoundPartitions(status.Partitions)
	room := maxKeys
	for i, key := range status.ResourceKey {
		if room -= lengthOf(key); room < 0 {
			status.ResourceKey = status.ResourceKey[:i]
			break
		}
	}
	cutAll(fleet.MaxURL, &status.OCIReference)
	cutAll(maxWord, &status.ResourcesSHA256Sum, &status.Display.State, &status.Display.ReadyClusters)
}

func boundCluster(status *fleet.ClusterStatus) {
	status.Conditions = BoundConditions(status.Conditions)
	status.Summary = BoundSummary(status.Summary)
	cutAll(fleet.MaxURL, &status.APIServerURL, &status.AgentPrivateRepoURL)
	cutAll(maxName, &status.Namespace, &status.Agent.Namespace, &status.Agent.RecoveryKey, &status.Agent.RecoveryTicket)
	cutAll(maxWord, &status.APIServerCAHash, &status.AgentTLSMode, &status.AgentEnvVarsHash, &status.AgentAffinityHash,
		&status.AgentResourcesHash, &status.AgentTolerationsHash, &status.AgentSchedulingCustomizationHash,
		&status.Agent.KubernetesVersion, &status.Agent.Platform, &status.Agent.AgentVersion,
		&status.Display.State, &status.Display.ReadyBundles)
}

// BoundDeployment cuts the status that an agent reports. If a list loses entries, the status is marked as incomplete.
func BoundDeployment(status *fleet.BundleDeploymentStatus) {
	status.Conditions = BoundConditions(status.Conditions)
	room := 2 * MaxListed * conditions.MaxMessage
	modified, nonReady := boundResources(status.ModifiedStatus, status.NonReadyStatus, &room, conditions.MaxMessage)
	deployed := boundDeployed(status.Resources)
	if len(modified) < len(status.ModifiedStatus) || len(nonReady) < len(status.NonReadyStatus) || len(deployed) < len(status.Resources) {
		status.IncompleteState = true
	}
	status.ModifiedStatus, status.NonReadyStatus, status.Resources = modified, nonReady, deployed
	cutAll(maxName, &status.AppliedDeploymentID, &status.Release)
	cutAll(maxDisplayed+len("Error: "), &status.Display.Deployed, &status.Display.Monitored)
	cutAll(maxWord, &status.Display.State)
}

// boundDeployed returns as many of the deployed resources as a status has room for.
func boundDeployed(deployed []fleet.DeployedResource) []fleet.DeployedResource {
	room := maxDeployed
	for i, r := range deployed {
		if room -= 110 + cut.Length(r.Kind) + cut.Length(r.APIVersion) + cut.Length(r.Namespace) + cut.Length(r.Name); room < 0 {
			return deployed[:i]
		}
	}
	return deployed
}

package deploy

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// setPrefix is the prefix of the ID of a BundleDeployment's set of objects. If it changes, all deployed objects
	// count as objects of another owner.
	setPrefix = "default"
	// fallbackNamespace is the namespace of a release whose options name none.
	fallbackNamespace = "default"
	// releaseSecretType is the type of the Secrets in which Helm stores releases.
	releaseSecretType = "helm.sh/release.v1"
)

// releaseKey identifies a Helm release without its revision.
type releaseKey struct {
	Namespace, Name string
}

func (k releaseKey) String() string { return k.Namespace + "/" + k.Name }

// at returns the key with a revision in the format of status.release: "<namespace>/<name>:<revision>".
func (k releaseKey) at(revision int) string { return fmt.Sprintf("%s:%d", k, revision) }

// parseRelease parses status.release. It returns false for text that at cannot have written.
func parseRelease(text string) (key releaseKey, revision int, ok bool) {
	namespace, rest, ok := strings.Cut(text, "/")
	if !ok || namespace == "" {
		return releaseKey{}, 0, false
	}
	colon := strings.LastIndexByte(rest, ':')
	if colon <= 0 || strings.Contains(rest[:colon], "/") {
		return releaseKey{}, 0, false
	}
	revision, err := strconv.Atoi(rest[colon+1:])
	if err != nil || revision < 1 || strconv.Itoa(revision) != rest[colon+1:] {
		return releaseKey{}, 0, false
	}
	return releaseKey{Namespace: namespace, Name: rest[:colon]}, revision, true
}

// releaseFor returns the release that a BundleDeployment should have.
func releaseFor(name string, options *fleet.BundleDeploymentOptions) releaseKey {
	key := releaseKey{Namespace: namespaceFor(options)}
	if options.Helm != nil {
		key.Name = options.Helm.ReleaseName
	}
	if key.Name == "" {
		key.Name = names.HelmReleaseName(name)
	}
	return key
}

// namespaceFor returns the namespace of the release, and of its objects without a namespace.
func namespaceFor(options *fleet.BundleDeploymentOptions) string {
	return cmp.Or(options.TargetNamespace, options.DefaultNamespace, fallbackNamespace)
}

// set identifies the objects of a BundleDeployment in the cluster.
type set struct {
	// ID is the value of an annotation, Hash the value of a label.
	ID, Hash string
}

// setFor returns the set of a user's BundleDeployment. scope separates several agents in one cluster.
func setFor(name, scope string) set {
	if scope == "" {
		return newSet(names.SafeConcat(setPrefix, name))
	}
	return newSet(names.SafeConcat(setPrefix, name, scope))
}

// agentSet returns the set of the agent's own deployment. An import uses the same set.
func agentSet(scope string) set { return newSet(names.AgentSetID(scope)) }

func newSet(id string) set { return set{ID: id, Hash: names.SetHash(id, names.Owner{})} }

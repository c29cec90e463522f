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
	// setPrefix begins the ID of the set of objects one BundleDeployment owns. Changing it turns every
	// deployed object into somebody else's.
	setPrefix = "default"
	// fallbackNamespace is where a release goes whose options name no namespace.
	fallbackNamespace = "default"
)

// releaseKey is a Helm release, of whatever revision.
type releaseKey struct {
	Namespace, Name string
}

func (k releaseKey) String() string { return k.Namespace + "/" + k.Name }

// at writes the key with a revision, the way status.release has it: "<namespace>/<name>:<revision>".
func (k releaseKey) at(revision int) string { return fmt.Sprintf("%s:%d", k, revision) }

// parseRelease reads status.release. It reports false for anything that at did not write.
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

// releaseFor is the release a BundleDeployment is to have.
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

// namespaceFor is the namespace of the release, and of its objects that name none.
func namespaceFor(options *fleet.BundleDeploymentOptions) string {
	return cmp.Or(options.TargetNamespace, options.DefaultNamespace, fallbackNamespace)
}

// isAgent reports whether a BundleDeployment deploys the agent itself. It is never uninstalled, only forgotten. Other
// bundles may have a name that begins like the agent's.
func (o Options) isAgent(name string) bool { return name != "" && name == o.OwnBundle }

// set is what marks the objects of a BundleDeployment in the cluster.
type set struct {
	// ID goes into an annotation, Hash into a label.
	ID, Hash string
}

// setOf is the set of a BundleDeployment. The agent's own deployment shares one set with what an import leaves behind,
// so that those objects are recognised.
func (o Options) setOf(name string) set {
	if o.isAgent(name) {
		return newSet(names.AgentSetID(o.Scope))
	}
	return setFor(name, o.Scope)
}

// setFor is the set of a BundleDeployment of a user; scope sets agents in one cluster apart.
func setFor(name, scope string) set {
	if scope == "" {
		return newSet(names.SafeConcat(setPrefix, name))
	}
	return newSet(names.SafeConcat(setPrefix, name, scope))
}

func newSet(id string) set { return set{ID: id, Hash: names.SetHash(id, names.Owner{})} }

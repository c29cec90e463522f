package placement

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
	// ReleaseSecretType is the type of the Secrets in which Helm stores releases.
	ReleaseSecretType = "helm.sh/release.v1"
)

// Release identifies a Helm release without its revision.
type Release struct {
	Namespace, Name string
}

func (k Release) String() string { return k.Namespace + "/" + k.Name }

// At returns the key with a revision in the format of status.release: "<namespace>/<name>:<revision>".
func (k Release) At(revision int) string { return fmt.Sprintf("%s:%d", k, revision) }

// ParseRelease parses status.release. It returns false for text that at cannot have written.
func ParseRelease(text string) (key Release, revision int, ok bool) {
	namespace, rest, ok := strings.Cut(text, "/")
	if !ok || namespace == "" {
		return Release{}, 0, false
	}
	colon := strings.LastIndexByte(rest, ':')
	if colon <= 0 || strings.Contains(rest[:colon], "/") {
		return Release{}, 0, false
	}
	revision, err := strconv.Atoi(rest[colon+1:])
	if err != nil || revision < 1 || strconv.Itoa(revision) != rest[colon+1:] {
		return Release{}, 0, false
	}
	return Release{Namespace: namespace, Name: rest[:colon]}, revision, true
}

// ReleaseOf returns the release that a BundleDeployment should have.
func ReleaseOf(name string, options *fleet.BundleDeploymentOptions) Release {
	key := Release{Namespace: NamespaceOf(options)}
	if options.Helm != nil {
		key.Name = options.Helm.ReleaseName
	}
	if key.Name == "" {
		key.Name = names.HelmReleaseName(name)
	}
	return key
}

// NamespaceOf returns the namespace of the release, and of its objects without a namespace.
func NamespaceOf(options *fleet.BundleDeploymentOptions) string {
	return cmp.Or(options.TargetNamespace, options.DefaultNamespace, fallbackNamespace)
}

// Set identifies the objects of a BundleDeployment in the cluster.
type Set struct {
	// ID is the value of an annotation, Hash the value of a label.
	ID, Hash string
	// IsAgent is true for the agent's own deployment.
	IsAgent bool
}

// SetOf returns the set of a user's BundleDeployment. scope separates several agents in one cluster.
func SetOf(name, scope string) Set {
	if scope == "" {
		return newSet(names.SafeConcat(setPrefix, name))
	}
	return newSet(names.SafeConcat(setPrefix, name, scope))
}

// RenderedSet returns the set of a BundleDeployment that no agent deploys, because it is only rendered.
func RenderedSet(name string) Set { return newSet(names.SafeConcat("", name)) }

// AgentSet returns the set of the agent's own deployment. An import uses the same set.
func AgentSet(scope string) Set {
	set := newSet(names.AgentSetID(scope))
	set.IsAgent = true
	return set
}

func newSet(id string) Set { return Set{ID: id, Hash: names.SetHash(id, names.Owner{})} }

package hub

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/selection"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// readyPatience is how long a Bundle may take to become ready.
	readyPatience = 15 * time.Minute
	// countsPatience is how long the pods of a Bundle that was ready before may restart.
	countsPatience = 2 * time.Minute
	// sizeLimit is the size of an object that API servers accept. Bundles get a warning from sizeWarning.
	sizeLimit   = 3 << 19
	sizeWarning = 1 << 20
)

// bundleChecks returns the checks of Bundles, and of what this product does not deliver.
func bundleChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "hub-bundles-failing", Needs: sources(SourceBundles), Judge: checkBundlesFailing},
		{ID: "hub-bundles-conditions", Needs: sources(SourceBundles), Judge: checkBundlesConditions},
		{ID: "hub-bundles-size", Needs: sources(SourceBundles), Judge: checkBundlesSize},
		{ID: "hub-bundles-targets", Needs: sources(SourceBundles), Judge: checkBundlesTargets},
		{ID: "hub-mappings", Needs: sources(SourceMappings, SourceNamespaces, SourceBundles), Judge: checkMappings},
		{ID: "hub-bundles-content", Needs: sources(SourceBundles), Judge: checkBundlesContent},
		{ID: "hub-shards", Needs: sources(SourceLeases, SourceDeployments, SourceBundles, SourceClusters, SourceGroups), Judge: checkShards},
		{ID: "hub-gitrepos", Needs: sources(SourceGitRepos, SourceDeployments), Judge: checkGitRepos},
		{ID: "hub-helmops", Needs: sources(SourceHelmOps, SourceDeployments), Judge: checkHelmOps},
	}
}

func checkBundlesFailing(f *Facts) (rows []check.Row) {
	for _, bundle := range f.Bundles {
		ready := conditions.Get(bundle.Status.Conditions, conditions.Ready)
		if ready == nil || ready.Status != corev1.ConditionFalse || bundle.DeletionTimestamp != nil {
			continue
		}
		summary := bundle.Status.Summary
		worst := state.WorstState(summary)
		switch {
		case summary.ErrApplied > 0 && ready.Reason != "": // without a reason, it only waits for its dependencies
			rows = check.Group(rows, worst, check.Fail(check.OfFleet("Bundle", bundle), causeOf(bundle, ready), describeDeployment(bundle)))
		case f.isLate(bundle, ready):
			rows = check.Group(rows, worst, check.Warn(check.OfFleet("Bundle", bundle), causeOf(bundle, ready), describeDeployment(bundle)))
		}
	}
	return rows
}

// isLate reports whether a Bundle should be ready by now. The time of the condition moves with the counts in its message, so that
// deployed clusters count from the last change of the Bundle, unless the counts changed a moment ago: pods may have restarted.
// Clusters that have not applied the Bundle yet may have just joined.
func (f *Facts) isLate(bundle Bundle, ready *genericcondition.GenericCondition) bool {
	deployed := bundle.Status.Summary.NotReady + bundle.Status.Summary.Modified
	return f.since(ready) > readyPatience || deployed > 0 && f.since(ready) > countsPatience && f.Now.Sub(bundle.Changed) > readyPatience
}

// since returns how long a condition is as it is.
func (f *Facts) since(condition *genericcondition.GenericCondition) time.Duration {
	at, err := time.Parse(time.RFC3339, condition.LastUpdateTime)
	if err != nil {
		return 0
	}
	return f.Now.Sub(at)
}

// causeOf returns the number of clusters on which a Bundle is ready, and the message of the most urgent other one.
func causeOf(bundle Bundle, ready *genericcondition.GenericCondition) string {
	summary := bundle.Status.Summary
	text := fmt.Sprintf("ready on %d of %d clusters: ", summary.Ready, summary.DesiredReady)
	if first := mostUrgent(bundle); first.Message != "" {
		return text + fmt.Sprintf("%s on %s: %s", first.BundleState, first.Name, first.Message)
	}
	return text + ready.Message
}

// mostUrgent returns the cluster to look at first, or the zero value: one with an error before one that waits.
func mostUrgent(bundle Bundle) fleet.NonReadyResource {
	all := bundle.Status.Summary.NonReadyResources
	if len(all) == 0 {
		return fleet.NonReadyResource{}
	}
	return slices.MinFunc(all, state.ByUrgency)
}

// describeDeployment returns the command that shows the BundleDeployment that is not ready, or else the Bundle. A Pending
// cluster has no BundleDeployment, and often neither has one with a targeting error.
func describeDeployment(bundle Bundle) string {
	first := mostUrgent(bundle)
	workspace, cluster, found := strings.Cut(first.Name, "/")
	if !found || first.BundleState == fleet.Pending || strings.HasPrefix(first.Message, selection.TargetingError) {
		return remedy.Describe("bundles", bundle.Namespace, bundle.Name)
	}
	return remedy.Describe("bundledeployments", names.ClusterNamespace(workspace, cluster), bundle.Name)
}

func checkBundlesConditions(f *Facts) (rows []check.Row) {
	for _, bundle := range f.Bundles {
		for _, condition := range bundle.Status.Conditions {
			if conditions.IsTrouble(condition) {
				rows = check.Group(rows, condition.Reason, check.Fail(check.OfFleet("Bundle", bundle), condition.Reason+": "+condition.Message, remedy.Describe("bundles", bundle.Namespace, bundle.Name)))
			}
		}
	}
	return rows
}

func checkBundlesSize(f *Facts) (rows []check.Row) {
	large := slices.DeleteFunc(slices.Clone(f.Bundles), func(b Bundle) bool { return b.Size < sizeWarning })
	slices.SortStableFunc(large, func(a, b Bundle) int { return cmp.Compare(b.Size, a.Size) })
	for _, bundle := range large {
		rows = check.Group(rows, "", check.Warn(check.OfFleet("Bundle", bundle), fmt.Sprintf("the Bundle has %d KiB; API servers accept about %d KiB. Split it, or exclude files in .fleetignore. If another tool wrote it uncompressed, write it with `fleet apply`, which compresses large Bundles",
			bundle.Size>>10, sizeLimit>>10), remedy.Describe("bundles", bundle.Namespace, bundle.Name)))
	}
	return rows
}

func checkBundlesTargets(f *Facts) (rows []check.Row) {
	for _, bundle := range f.Bundles {
		observed := bundle.Status.ObservedGeneration == bundle.Generation || conditions.Get(bundle.Status.Conditions, conditions.Ready) != nil
		if bundle.Status.Summary.DesiredReady > 0 || !observed || bundle.DeletionTimestamp != nil || !f.older(bundle, check.CreationPatience) {
			continue
		}
		cause := "no Cluster matches the targets of the Bundle"
		if len(bundle.Spec.Targets) == 0 {
			cause = "the Bundle has no targets"
		}
		rows = check.Group(rows, cause, check.Warn(check.OfFleet("Bundle", bundle), cause, remedy.Command("kubectl", "get", "clusters.fleet.cattle.io", "-n", bundle.Namespace, "--show-labels")))
	}
	return rows
}

func checkBundlesContent(f *Facts) (rows []check.Row) {
	for _, bundle := range f.Bundles {
		cause := ""
		switch {
		case bundle.Spec.ContentsID != "":
			cause = "the resources of the Bundle are in an OCI registry, which agents of this product do not read"
		case bundle.Spec.HelmOpOptions != nil:
			cause = "the Bundle is for a chart that agents have to download, and agents of this product download no charts"
		default:
			continue
		}
		rows = check.Group(rows, cause, check.Fail(check.OfFleet("Bundle", bundle), cause+". Put the files into the Bundle with `fleet apply`",
			"cd FOLDER && "+remedy.Command("fleet", "apply", bundle.Name, "-n", bundle.Namespace)))
	}
	return rows
}

func checkGitRepos(f *Facts) []check.Row {
	return f.withoutEffect("GitRepo", "gitrepos", "gitjob", f.GitRepos)
}

func checkHelmOps(f *Facts) []check.Row {
	return f.withoutEffect("HelmOp", "helmops", "helmops", f.HelmOps)
}

// withoutEffect returns a row for objects that only a controller of Rancher Fleet reconciles, unless that one runs.
func (f *Facts) withoutEffect(kind, resource, controller string, objects []*metav1.PartialObjectMetadata) (rows []check.Row) {
	if slices.ContainsFunc(f.Deployments, func(d *appsv1.Deployment) bool { return d.Name == controller && d.Status.ReadyReplicas > 0 }) {
		return nil
	}
	for _, found := range objects {
		fix := remedy.Command("kubectl", "delete", resource+"."+fleet.GroupName, "-n", found.Namespace, found.Name)
		if len(found.Finalizers) > 0 { // its controller, which would remove them, does not run
			fix = removeFinalizers(resource, found) + " && " + fix
		}
		rows = check.Group(rows, "", check.Warn(check.OfFleet(kind, found),
			"the "+kind+" has no effect, because this product has no controller for it. Its Bundles stay. Deliver the folder with `fleet apply`, and delete the "+kind, fix))
	}
	return rows
}

// removeFinalizers returns the command that removes the finalizers of an object.
func removeFinalizers(resource string, object metav1.Object) string {
	return remedy.Patch(resource, object, map[string]any{"metadata": map[string]any{"finalizers": nil}})
}

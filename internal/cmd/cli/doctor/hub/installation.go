package hub

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/cmd/cli/leases"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/crds"
	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxNamed is how many names a cause contains.
const maxNamed = 5

// installationChecks returns the checks of the installation.
func installationChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "hub-api", Judge: checkAPI},
		{ID: "hub-crds", Needs: sources(SourceCRDs), Judge: checkCRDs},
		{ID: "hub-crds-fields", Needs: sources(SourceCRDs), Judge: checkFields},
		{ID: "hub-config", Needs: sources(SourceConfig), Judge: checkConfig},
		{ID: "hub-version", Needs: sources(SourceConfig, SourceDeployments), Judge: checkVersion},
		{ID: "hub-controllers", Needs: sources(SourceDeployments), Judge: checkControllers},
		{ID: "hub-leases", Needs: sources(SourceLeases), Judge: checkLeases},
		{ID: "hub-other-manager", Needs: sources(SourceLeases, SourceDeployments), Judge: checkOtherManager},
		{ID: "hub-webhooks", Needs: sources(SourceValidating, SourceMutating, SourceServices), Judge: checkWebhooks},
		{ID: "hub-workspace", Needs: sources(SourceNamespaces), Judge: checkWorkspace},
	}
}

func checkAPI(f *Facts) []check.Row {
	return []check.Row{check.Ok(check.Object{}, "Kubernetes "+f.Kubernetes)}
}

// installCRDs returns the command that installs or upgrades the CRDs. It takes over those that Helm did not install, which needs
// Helm 3.17.
func (f *Facts) installCRDs() string {
	release, namespace, options := "fleet-crd", f.System, []string(nil)
	for _, embedded := range f.Embedded {
		served := f.crd(embedded.Name)
		switch {
		case served == nil:
		case served.Annotations["meta.helm.sh/release-name"] == "":
			options = []string{"--take-ownership"}
		default:
			release, namespace = served.Annotations["meta.helm.sh/release-name"], served.Annotations["meta.helm.sh/release-namespace"]
		}
	}
	return remedy.Command(append([]string{"helm", "upgrade", "--install", release, "charts/fleet-crd", "-n", namespace}, options...)...)
}

func crdObject(name string) check.Object {
	return check.Object{Kind: "CustomResourceDefinition", Group: apiextensions.GroupName, Name: name}
}

func (f *Facts) crd(name string) *apiextensions.CustomResourceDefinition {
	i := slices.IndexFunc(f.CRDs, func(c apiextensions.CustomResourceDefinition) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.CRDs[i]
}

func checkCRDs(f *Facts) (rows []check.Row) {
	for _, embedded := range f.Embedded {
		served, target := f.crd(embedded.Name), crdObject(embedded.Name)
		switch {
		case served == nil:
			rows = check.Group(rows, "missing", check.Fail(target, "the CRD does not exist, so that objects of this kind can be neither written nor read", f.installCRDs()))
		case served.DeletionTimestamp != nil:
			rows = check.Group(rows, "deleting", check.Fail(target, "the CRD is being deleted, and all objects of this kind with it", remedy.Command("kubectl", "describe", "crd", embedded.Name)))
		case !isEstablished(served):
			rows = check.Group(rows, "established", check.Fail(target, "the API server does not serve the CRD yet; its condition Established or NamesAccepted says why", remedy.Command("kubectl", "describe", "crd", embedded.Name)))
		}
	}
	return rows
}

func isEstablished(crd *apiextensions.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue
	})
}

func checkFields(f *Facts) (rows []check.Row) {
	for i := range f.Embedded {
		served := f.crd(f.Embedded[i].Name)
		if served == nil {
			continue
		}
		if missing := crds.Missing(&f.Embedded[i], served); len(missing) > 0 {
			rows = check.Group(rows, "", check.Fail(crdObject(served.Name), fmt.Sprintf("the CRD is older than this release: the API server drops %s", cut.Names(missing, maxNamed)), f.installCRDs()))
		}
	}
	return rows
}

// ownLeases are the Leases that the controllers hold together.
func ownLeases() []string {
	return []string{names.ControllerLease, names.CleanupLease, names.DeliveryLease}
}

func leaseObject(namespace, name string) check.Object {
	return check.Object{Kind: "Lease", Group: coordinationv1.GroupName, Namespace: namespace, Name: name}
}

func checkLeases(f *Facts) (rows []check.Row) {
	for _, name := range ownLeases() {
		rows = append(rows, f.checkLease(name))
	}
	return rows
}

func (f *Facts) checkLease(name string) check.Row {
	target, pods := leaseObject(f.System, name), remedy.Command("kubectl", "get", "pods", "-n", f.System)
	i := slices.IndexFunc(f.Leases, func(l *coordinationv1.Lease) bool { return l.Name == name })
	if i < 0 {
		return check.Fail(target, "the Lease does not exist: no controller of the hub is active, and nothing is reconciled", pods)
	}
	lease := leases.Of(f.Leases[i], f.Now)
	switch {
	case lease.Active:
		return check.Ok(target, fmt.Sprintf("%s, renewed %s ago", lease.Holder, f.ago(lease)))
	case lease.Holder == "":
		return check.Fail(target, "no process holds the Lease: no controller of the hub is active, and nothing is reconciled", pods)
	}
	return check.Fail(target, fmt.Sprintf("%s has not renewed the Lease for %s: no controller of the hub is active, and nothing is reconciled", lease.Holder, f.ago(lease)), pods)
}

func (f *Facts) ago(lease leases.Lease) string {
	if lease.Renewed == nil {
		return "an unknown time"
	}
	return duration.HumanDuration(max(f.Now.Sub(lease.Renewed.Time), 0))
}

// chart returns the command that upgrades the hub's chart with one more value.
func (f *Facts) chart(values ...string) string {
	release := cmp.Or(f.Config.Release, "fleet")
	return remedy.Command(append([]string{"helm", "upgrade", "-n", f.System, release, "charts/fleet", "--reset-then-reuse-values"}, values...)...)
}

// install returns the command that installs the hub's chart. It needs a file with the values: with the defaults, agents would get
// another image and no address of the hub.
func (f *Facts) install() string {
	return remedy.Command("helm", "upgrade", "--install", "fleet", "charts/fleet", "-n", f.System, "--create-namespace", "-f", "fleet-values.yaml")
}

func (f *Facts) configObject() check.Object {
	return check.Object{Kind: "ConfigMap", Namespace: f.System, Name: names.ControllerConfig}
}

func checkConfig(f *Facts) (rows []check.Row) {
	c := f.Config
	switch {
	case !c.Exists:
		return []check.Row{check.Fail(f.configObject(), "the ConfigMap does not exist: the hub's chart is not installed in this namespace. Put its values into fleet-values.yaml", f.install())}
	case c.Err != nil:
		return []check.Row{check.Fail(f.configObject(), "the controllers keep their former configuration: "+c.Err.Error(), f.chart())}
	}
	for _, warning := range c.Warnings {
		rows = append(rows, check.Warn(f.configObject(), warning, f.chart()))
	}
	return rows
}

func deploymentObject(deployment *appsv1.Deployment) check.Object {
	return check.Object{Kind: "Deployment", Group: appsv1.GroupName, Namespace: deployment.Namespace, Name: deployment.Name}
}

// Controllers returns the Deployments of this product's controllers: one, and one for each shard.
func (f *Facts) Controllers() (found []*appsv1.Deployment) {
	for _, deployment := range f.Deployments {
		isOurs := deployment.Name == names.ControllerConfig || strings.HasPrefix(deployment.Name, names.ControllerConfig+"-shard-")
		if isOurs && !isRancher(deployment) {
			found = append(found, deployment)
		}
	}
	return found
}

// isRancher reports whether a Deployment runs an image of Rancher Fleet.
func isRancher(deployment *appsv1.Deployment) bool {
	return slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		repository, _ := hubconfig.SplitImage(c.Image)
		return strings.HasSuffix("/"+repository, "/rancher/fleet")
	})
}

func checkControllers(f *Facts) (rows []check.Row) {
	found := f.Controllers()
	if len(found) == 0 && slices.ContainsFunc(f.Deployments, isRancher) {
		return nil // check hub-other-manager reports it
	}
	if len(found) == 0 {
		target := check.Object{Kind: "Deployment", Group: appsv1.GroupName, Namespace: f.System, Name: names.ControllerConfig}
		fix := f.install()
		if f.Config.Exists {
			fix = f.chart("--install")
		}
		return []check.Row{check.Fail(target, "the Deployment does not exist: the hub's chart is not installed in this namespace", fix)}
	}
	for _, deployment := range found {
		wanted := int32(1)
		if deployment.Spec.Replicas != nil {
			wanted = *deployment.Spec.Replicas
		}
		ready, target := deployment.Status.ReadyReplicas, deploymentObject(deployment)
		describe := remedy.Command("kubectl", "describe", "pods", "-n", deployment.Namespace, "-l", "app="+deployment.Name)
		switch {
		case wanted == 0:
			rows = append(rows, check.Fail(target, "the Deployment is scaled to 0: nothing is reconciled",
				remedy.Command("kubectl", "scale", "-n", deployment.Namespace, "deployment/"+deployment.Name, "--replicas=1")))
		case ready == 0:
			rows = append(rows, check.Fail(target, fmt.Sprintf("0 of %d pods are ready: nothing is reconciled", wanted), describe))
		case ready < wanted:
			rows = append(rows, check.Warn(target, fmt.Sprintf("%d of %d pods are ready", ready, wanted), describe))
		case deployment.Status.UnavailableReplicas > 0:
			rows = append(rows, check.Warn(target, "an upgrade is not complete: pods of the new version are not ready, and those of the old version still run", describe))
		default:
			rows = append(rows, check.Ok(target, fmt.Sprintf("%d of %d pods are ready", ready, wanted)))
		}
	}
	return rows
}

func checkVersion(f *Facts) (rows []check.Row) {
	written := f.Config.Version
	for _, deployment := range f.Controllers() {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			_, tag := hubconfig.SplitImage(container.Image)
			if container.Name == names.ControllerConfig && f.Config.Exists && tag != "" && tag != written {
				rows = append(rows, check.Fail(deploymentObject(deployment), fmt.Sprintf(
					"the controllers have version %s, and ignore the configuration in ConfigMap %s/%s, which was written for %q",
					tag, f.System, names.ControllerConfig, written), f.chart()))
			}
		}
	}
	fix := ""
	switch {
	case check.IsOlder(version.Version, written):
		fix = "install `fleet` of the version of the hub"
	case check.IsOlder(written, version.Version):
		fix = "upgrade the hub, CRDs first (docs/upgrade.md): " + f.chart("--set", "image.tag="+version.Version+",agentImage.tag="+version.Version)
	default:
		return rows
	}
	return append(rows, check.Warn(f.configObject(), fmt.Sprintf("the hub has version %s, and this `fleet` has version %s", written, version.Version), fix))
}

// ownIdentity matches the identities of this product's controllers in Leases.
var ownIdentity = regexp.MustCompile(`_[a-z2-7]{26}$`)

// migrate is the fix on a hub of Rancher Fleet. An upgrade without the preparation would lose functions and settings.
const migrate = "do not upgrade the chart yet, follow docs/migration.md from its beginning: kubectl get deployments -n cattle-system rancher"

// withMigration makes the judge of a check print migrate instead of an upgrade of the charts while Rancher Fleet runs.
func withMigration(judge func(*Facts) []check.Row) func(*Facts) []check.Row {
	return func(f *Facts) []check.Row {
		rows := judge(f)
		for i := range rows {
			if strings.Contains(rows[i].Fix, "helm upgrade") && slices.ContainsFunc(f.Deployments, isRancher) {
				rows[i].Fix = migrate
			}
		}
		return rows
	}
}

func checkOtherManager(f *Facts) (rows []check.Row) {
	for _, deployment := range f.Deployments {
		if isRancher(deployment) {
			rows = append(rows, check.Fail(deploymentObject(deployment), "Rancher Fleet's controllers run on this hub. Either they or the controllers of this product can lead, not both", migrate))
		}
	}
	for _, held := range f.Leases {
		lease := leases.Of(held, f.Now)
		if slices.Contains(ownLeases(), lease.Name) && lease.Active && !ownIdentity.MatchString(lease.Holder) {
			rows = append(rows, check.Fail(leaseObject(f.System, lease.Name),
				fmt.Sprintf("%s, which is not a controller of this product, holds the Lease. The controllers of this product wait for it", lease.Holder), migrate))
		}
	}
	return rows
}

// checkWebhooks finds webhooks that cannot answer because their Service does not exist.
func checkWebhooks(f *Facts) (rows []check.Row) {
	services := namesOf(f.Services)
	for _, configuration := range f.Validating {
		for _, w := range configuration.Webhooks {
			rows = addWebhook(rows, services, "ValidatingWebhookConfiguration", configuration.Name, w)
		}
	}
	for _, configuration := range f.Mutating {
		for _, w := range configuration.Webhooks {
			rows = addWebhook(rows, services, "MutatingWebhookConfiguration", configuration.Name,
				admissionregistrationv1.ValidatingWebhook{Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy})
		}
	}
	return rows
}

// addWebhook adds a row for a webhook without which the API server rejects writes, if its Service does not exist.
func addWebhook(rows []check.Row, services map[types.NamespacedName]bool, kind, configuration string, webhook admissionregistrationv1.ValidatingWebhook) []check.Row {
	service, mayFail := webhook.ClientConfig.Service, webhook.FailurePolicy != nil && *webhook.FailurePolicy != admissionregistrationv1.Fail
	if service == nil || mayFail || !concernsFleet(webhook.Rules) {
		return rows
	}
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	if services[name] {
		return rows
	}
	target := check.Object{Kind: kind, Group: admissionregistrationv1.GroupName, Name: configuration}
	return check.Group(rows, target.Resource(), check.Fail(target, fmt.Sprintf(
		"webhook %s has to admit objects of fleet.cattle.io, but its Service %s does not exist: the API server rejects their changes", webhook.Name, name),
		remedy.Command("kubectl", "delete", target.Type(), configuration)))
}

// concernsFleet reports whether a rule selects objects of fleet.cattle.io.
func concernsFleet(rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return slices.Contains(r.APIGroups, fleet.GroupName) || slices.Contains(r.APIGroups, "*")
	})
}

// checkWorkspace reports a workspace that the user has chosen and that does not exist. The other checks find nothing wrong there.
func checkWorkspace(f *Facts) []check.Row {
	isWorkspace := func(n *metav1.PartialObjectMetadata) bool { return n.Name == f.Workspace }
	if !f.Chosen || f.Workspace == "" || slices.ContainsFunc(f.Namespaces, isWorkspace) {
		return nil
	}
	target := check.Object{Kind: "Namespace", Group: corev1.GroupName, Name: f.Workspace}
	return []check.Row{check.Fail(target, "the workspace does not exist, so there are no objects to check. Select another one with -n, or all with -A",
		remedy.Command("kubectl", "get", "namespaces"))}
}

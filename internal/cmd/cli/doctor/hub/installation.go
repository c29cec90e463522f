package hub

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/leases"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/crds"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

func checkAPI(f *Facts) []check.Row {
	return []check.Row{check.Ok(check.Object{}, "Kubernetes "+f.Kubernetes)}
}

// installCRDs returns the command that installs or upgrades the CRDs.
func (f *Facts) installCRDs() string {
	return remedy.Command("helm", "upgrade", "--install", "fleet-crd", "charts/fleet-crd", "-n", f.System, "--take-ownership")
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

func checkCRDs(f *Facts) []check.Row {
	var missing, waiting check.Groups
	for _, embedded := range f.Embedded {
		served, target := f.crd(embedded.Name), crdObject(embedded.Name)
		switch {
		case served == nil:
			missing.Add("", check.Fail(target, "the CRD does not exist, so that objects of this kind can be neither written nor read", f.installCRDs()))
		case served.DeletionTimestamp != nil:
			waiting.Add("deleting", check.Fail(target, "the CRD is being deleted, and all objects of this kind with it", remedy.Command("kubectl", "describe", "crd", embedded.Name)))
		case !isEstablished(served):
			waiting.Add("established", check.Fail(target, "the API server does not serve the CRD yet; its condition Established or NamesAccepted says why", remedy.Command("kubectl", "describe", "crd", embedded.Name)))
		}
	}
	return append(missing.Rows(), waiting.Rows()...)
}

func isEstablished(crd *apiextensions.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue
	})
}

func checkFields(f *Facts) []check.Row {
	var old check.Groups
	for i := range f.Embedded {
		served := f.crd(f.Embedded[i].Name)
		if served == nil {
			continue
		}
		if missing := crds.Missing(&f.Embedded[i], served); len(missing) > 0 {
			old.Add("", check.Fail(crdObject(served.Name), fmt.Sprintf("the CRD is older than this release: the API server drops %s", few(missing)), f.installCRDs()))
		}
	}
	return old.Rows()
}

// few returns the first names of a list.
func few(all []string) string {
	const shown = 5
	if len(all) <= shown {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:shown], ", "), len(all)-shown)
}

// ownLeases are the Leases that the controllers hold together.
func ownLeases() []string {
	return []string{names.ControllerLease, names.CleanupLease, names.DeliveryLease}
}

func leaseObject(namespace, name string) check.Object {
	return check.Object{Kind: "Lease", Group: coordinationv1.GroupName, Namespace: namespace, Name: name}
}

func checkLeases(f *Facts) []check.Row {
	var rows []check.Row
	for _, name := range ownLeases() {
		rows = append(rows, f.checkLease(name))
	}
	return rows
}

func (f *Facts) checkLease(name string) check.Row {
	target, pods := leaseObject(f.System, name), remedy.Command("kubectl", "get", "pods", "-n", f.System)
	i := slices.IndexFunc(f.Leases, func(l coordinationv1.Lease) bool { return l.Name == name })
	if i < 0 {
		return check.Fail(target, "the Lease does not exist: no controller of the hub is active, and nothing is reconciled", pods)
	}
	lease := leases.Of(&f.Leases[i], f.Now)
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

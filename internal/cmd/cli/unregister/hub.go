package unregister

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/cmd/cli/importaccount"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// hubFound is what the hub has of a cluster.
type hubFound struct {
	workspace, name string
	config          config.Config
	// cluster is nil if it does not exist, for example because an earlier run has deleted it.
	cluster *fleet.Cluster
	// capiGone means that no Cluster of Cluster API has its name, or that none are served.
	capiGone bool
	// workloads are the BundleDeployments without that of the agent, as workspace/Bundle. hidden means that the user may not
	// list them: tenants have no rights in the namespaces of Clusters.
	workloads []string
	hidden    bool
	// tokens are those that were created for this Cluster.
	tokens []*fleet.ClusterRegistrationToken
	// kubeconfig is the Secret that `fleet import` has created, or nil. sharedBy is another Cluster that names it.
	kubeconfig *corev1.Secret
	sharedBy   string
}

// fullName returns the name with the workspace.
func (f hubFound) fullName() string { return f.workspace + "/" + f.name }

// gone reports whether the hub has nothing of the cluster.
func (f hubFound) gone() bool { return f.cluster == nil && len(f.tokens) == 0 && f.kubeconfig == nil }

// gatherHub reads what the hub has of a cluster.
func gatherHub(ctx context.Context, hub *access.Cluster, name string) (hubFound, error) {
	f := hubFound{workspace: hub.Namespace, name: name, config: hubconfig.Read(ctx, hub.Core)}
	var err error
	if f.cluster, err = access.Find(ctx, hub.Clusters(f.workspace), "Cluster "+f.fullName(), name); err != nil {
		return f, err
	}
	if capi.IsMarked(f.cluster) {
		f.capiGone = isCAPIGone(ctx, hub, name)
	}
	if err := f.readWorkloads(ctx, hub); err != nil {
		return f, err
	}
	f.tokens, err = access.Select(ctx, hub.Tokens(f.workspace), metav1.ListOptions{}, func(t *fleet.ClusterRegistrationToken) bool {
		return t.Annotations[annotation.TokenForCluster] == name
	})
	if err != nil {
		return f, access.Explain("reading ClusterRegistrationTokens", err)
	}
	return f, f.readKubeconfig(ctx, hub)
}

// isCAPIGone reports whether no served version of Cluster API has a Cluster with this name. It returns false if that is unknown.
func isCAPIGone(ctx context.Context, hub *access.Cluster, name string) bool {
	for _, version := range capi.Versions() {
		served := schema.GroupVersionResource{Group: capi.Group, Version: version, Resource: "clusters"}
		if _, err := hub.Metadata.Resource(served).Namespace(hub.Namespace).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return false
		}
	}
	return true
}

// readWorkloads lists the BundleDeployments of the cluster.
func (f *hubFound) readWorkloads(ctx context.Context, hub *access.Cluster) error {
	if f.cluster == nil {
		return nil
	}
	namespace := clusters.NamespaceOf(f.cluster)
	_, err := access.Each(ctx, hub.BundleDeployments(namespace), metav1.ListOptions{}, func(d *fleet.BundleDeployment) error {
		bundle, of := d.Labels[fleet.LabelBundleName], d.Labels[fleet.LabelBundleNamespace]
		if bundle == names.AgentBundle(f.name) && of == f.workspace {
			return nil
		}
		if bundle == "" {
			of, bundle = namespace, d.Name
		}
		f.workloads = append(f.workloads, output.Line(of+"/"+bundle))
		return nil
	})
	if f.hidden = apierrors.IsForbidden(err); f.hidden {
		return nil
	}
	return access.Explain("reading BundleDeployments of namespace "+namespace, err)
}

// readKubeconfig reads the Secret that `fleet import` creates for the Cluster, and looks for other Clusters that name it.
func (f *hubFound) readKubeconfig(ctx context.Context, hub *access.Cluster) error {
	name := importaccount.KubeconfigSecret(f.name)
	secret, err := access.Find(ctx, hub.Core.CoreV1().Secrets(f.workspace), "Secret "+f.workspace+"/"+name, name)
	if err != nil || secret == nil || !importaccount.IsOurs(secret) {
		return err
	}
	secret.Data, f.kubeconfig = nil, secret
	f.sharedBy, err = importaccount.SharedBy(ctx, hub, f.workspace, f.name)
	return err
}

// hubSteps returns the deletions on the hub. Tokens are the first, so that no agent joins again meanwhile.
func (o *options) hubSteps(hub *access.Cluster, f hubFound) []step {
	var steps []step
	for _, token := range f.tokens {
		steps = append(steps, step{Change{On: onHub, Kind: "ClusterRegistrationToken", Namespace: token.Namespace, Name: token.Name}, func(ctx context.Context) (string, error) {
			return "", access.Delete(ctx, hub.Tokens(token.Namespace), "token "+token.Namespace+"/"+token.Name, token.Name, token.UID)
		}})
	}
	if f.cluster != nil {
		steps = append(steps, step{Change{On: onHub, Kind: "Cluster", Namespace: f.workspace, Name: f.name}, func(ctx context.Context) (string, error) {
			return "", o.deleteCluster(ctx, hub, f.cluster)
		}})
	}
	secret := Change{On: onHub, Kind: "Secret", Namespace: f.workspace, Name: importaccount.KubeconfigSecret(f.name)}
	switch {
	case f.kubeconfig != nil && f.sharedBy != "":
		secret.Cause = "Cluster " + f.sharedBy + " names it, too"
		steps = append(steps, step{Change: secret})
	case f.kubeconfig != nil:
		steps = append(steps, step{secret, func(ctx context.Context) (string, error) {
			name := f.kubeconfig.Name
			return "", access.Delete(ctx, hub.Core.CoreV1().Secrets(f.workspace), "Secret "+f.workspace+"/"+name, name, f.kubeconfig.UID)
		}})
	case f.cluster != nil && f.cluster.Spec.KubeConfigSecret != "":
		named := clusters.KubeconfigSecret(f.cluster)
		secret.Namespace, secret.Name = output.Line(named.Namespace), output.Line(named.Name)
		secret.Cause = "it was not created by fleet import"
		steps = append(steps, step{Change: secret})
	}
	return steps
}

// deleteCluster deletes the Cluster and waits until the hub has removed its finalizer.
func (o *options) deleteCluster(ctx context.Context, hub *access.Cluster, c *fleet.Cluster) error {
	name := c.Namespace + "/" + c.Name
	if c.DeletionTimestamp == nil {
		if err := access.Delete(ctx, hub.Clusters(c.Namespace), "Cluster "+name, c.Name, c.UID); err != nil {
			return err
		}
	}
	return await.Wait{
		For: "the deletion of Cluster " + name, Timeout: o.timeout, Progress: o.streams.ErrOut,
		Next: []string{"only the controllers remove the finalizer; to read their log: kubectl logs -n cattle-fleet-system deployment/fleet-controller"},
	}.Until(ctx, func(ctx context.Context) (bool, string, error) {
		now, err := hub.Clusters(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != c.UID:
			return true, "", nil
		case err != nil:
			return false, "", access.Explain("reading Cluster "+name, err)
		}
		processed := conditions.Get(now.Status.Conditions, conditions.Processed)
		if processed != nil && processed.Status == corev1.ConditionFalse {
			return false, output.Line(processed.Message), nil
		}
		return false, "", nil
	})
}

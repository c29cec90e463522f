package rules_test

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// work returns everything that the controllers would reconcile now, one item per object.
func (w *world) work() (items []func() bool) {
	owners := map[place]bool{}
	for at := range w.objects {
		owners[at] = true
	}
	for _, owner := range w.sets {
		owners[owner] = true // including owners that no longer exist
	}
	for _, namespace := range list[corev1.Namespace](w, onHub) {
		owners[clusterOf(namespace)] = true // including Clusters that no longer exist
	}
	for _, reader := range list[rbacv1.Role](w, onHub) { // including requests that no longer exist
		if name := reader.Annotations[fleet.AnnotationClusterRegistration]; name != "" && reader.Namespace == rulestest.HubNamespaces().Registration {
			owners[place{onHub, "ClusterRegistration", reader.Annotations[fleet.AnnotationClusterRegistrationNamespace], name}] = true
		}
	}
	for _, at := range sortedPlaces(owners) {
		if at.cluster != onHub {
			continue
		}
		switch at.kind {
		case "ClusterRegistrationToken":
			items = append(items, func() bool { return w.token(at) })
		case "Cluster":
			items = append(items, func() bool { return w.cluster(at) }, func() bool { return w.imports(at) })
		case "ClusterRegistration":
			items = append(items, func() bool { return w.grant(at) })
		}
	}
	items = append(items, w.readers, w.expiry, w.garbage)
	if w.keeps {
		items = append(items, w.accounts)
	}
	if !w.asleep {
		for _, a := range w.agents {
			items = append(items, a.step)
		}
	}
	return items
}

// mint stands in for the TokenRequest API.
func (w *world) mint(m *protocol.Mint) string {
	w.t.Helper()
	account := find[corev1.ServiceAccount](w, onHub, m.Namespace, m.Account)
	if account == nil {
		w.t.Fatalf("a token is asked for an account that is not there: %+v", m)
	}
	return rulestest.BoundJWT(string(account.UID), w.now.Add(m.Lifetime))
}

func (w *world) token(at place) bool {
	token := find[fleet.ClusterRegistrationToken](w, onHub, at.namespace, at.name)
	if token == nil {
		return w.do("token", "Gone", func() { w.apply(at, nil) })
	}
	account := names.ImportAccount(token.Name, string(token.UID))
	out := ask(w, tokenrule.Decide, tokenrule.Input{
		Now: w.now, Token: token,
		Account: find[corev1.ServiceAccount](w, onHub, at.namespace, account),
		RightsExist: find[rbacv1.Role](w, onHub, at.namespace, account+"-role") != nil &&
			find[rbacv1.RoleBinding](w, onHub, at.namespace, account+"-to-role") != nil,
		Secret:       find[corev1.Secret](w, onHub, at.namespace, at.name),
		APIServerURL: w.config.APIServerURL, APIServerCA: w.config.APIServerCA, Namespaces: rulestest.HubNamespaces(),
	})
	if out.Delete {
		return w.do("token", string(out.Stage), func() { w.remove(at) })
	}
	return w.do("token", string(out.Stage), func() {
		children := out.Children
		if out.Mint != nil {
			out.Values.Token = w.mint(out.Mint)
			secret, err := tokenrule.ValuesSecret(token, out.Values)
			if err != nil {
				w.t.Fatal(err)
			}
			children = append(children, secret)
		}
		w.apply(at, children)
	}, func() {
		token.Status = out.Status
		w.put(onHub, token)
	})
}

// cluster creates a Cluster's namespace, and deletes it.
func (w *world) cluster(at place) bool {
	cluster := find[fleet.Cluster](w, onHub, at.namespace, at.name)
	if cluster == nil || cluster.DeletionTimestamp != nil {
		return w.leave(at)
	}
	name := names.ClusterNamespace(at.namespace, at.name)
	return w.do("cluster", "Settled", func() {
		cluster.Finalizers = []string{fleet.FinalizerCluster}
		w.put(onHub, cluster)
	}, func() {
		w.put(onHub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			fleet.AnnotationCluster: at.name, fleet.AnnotationClusterNamespace: at.namespace,
		}}})
	}, func() {
		cluster.Status.Namespace = name
		w.put(onHub, cluster)
	})
}

// leave deletes a Cluster's accounts, then its namespace, then the Cluster, as far as they still exist.
func (w *world) leave(at place) bool {
	namespace := place{onHub, "Namespace", "", names.ClusterNamespace(at.namespace, at.name)}
	w.blocked[at] = w.now
	return w.do("cluster", "Leaving", func() {
		for _, account := range list[corev1.ServiceAccount](w, onHub) {
			if account.Namespace == namespace.name && account.Annotations[fleet.AnnotationClusterRegistration] != "" {
				w.remove(placeOf(onHub, account))
			}
		}
	}, func() { w.remove(namespace) }, func() { w.remove(at) })
}

// clusterOf returns the place of the Cluster to which a namespace belongs or belonged.
func clusterOf(namespace *corev1.Namespace) place {
	annotations := namespace.Annotations
	return place{onHub, "Cluster", annotations[fleet.AnnotationClusterNamespace], annotations[fleet.AnnotationCluster]}
}

func (w *world) imports(at place) bool {
	cluster := find[fleet.Cluster](w, onHub, at.namespace, at.name)
	if cluster == nil {
		return false
	}
	tokenAt := place{onHub, "ClusterRegistrationToken", at.namespace, names.ImportToken(at.name)}
	in := importing.Input{
		Now: w.now, Cluster: cluster,
		Kubeconfig: find[corev1.Secret](w, onHub, at.namespace, cluster.Spec.KubeConfigSecret),
		Token:      find[fleet.ClusterRegistrationToken](w, onHub, at.namespace, tokenAt.name),
		Values:     find[corev1.Secret](w, onHub, at.namespace, tokenAt.name),
		Config:     w.config, Defaults: rulestest.HubDefaults(), Namespaces: rulestest.HubNamespaces(),
	}
	if used := importing.MayHaveUsedToken(in, list[fleet.ClusterRegistration](w, onHub)); used != nil {
		account := grant.RequestAccount(used, cluster)
		found := find[corev1.ServiceAccount](w, onHub, account.Namespace, account.Name)
		in.TokenUsed = found != nil && w.speakers[cluster.Name] == string(found.UID)
	}
	out := ask(w, importing.Decide, in)
	return w.do("import", string(out.Stage), func() {
		switch {
		case out.Stage == importing.NeedsClientID:
			cluster.Spec.ClientID = "client of " + string(cluster.UID)
			w.put(onHub, cluster)
		case out.RenewToken, out.EndToken:
			w.remove(tokenAt)
		case out.CreateToken != nil:
			w.put(onHub, out.CreateToken)
		case out.Deploy != nil:
			w.deploy(cluster, out)
		}
	})
}

// deploy applies an agent downstream. In these tests the kubeconfig of a Cluster is the name of the cluster.
func (w *world) deploy(cluster *fleet.Cluster, out importing.Outcome) {
	secret := find[corev1.Secret](w, onHub, cluster.Namespace, cluster.Spec.KubeConfigSecret)
	where, values := string(secret.Data[protocol.KubeconfigValueKey]), out.Deploy.Values
	if out.Deploy.LeaveNamespace != "" {
		for _, at := range w.places() {
			if at.cluster == where && at.namespace == out.Deploy.LeaveNamespace {
				w.remove(at)
			}
		}
	}
	if out.Deploy.NewRegistration {
		w.remove(place{where, "Secret", values.Namespace, names.Agent})
	}
	w.install(where, values.Namespace, values.Bootstrap, *values.Config)
	rulestest.Note(&cluster.Status, out)
	w.put(onHub, cluster)
}

// install does what an import and `helm install fleet-agent` have in common.
func (w *world) install(where, namespace string, bootstrap *protocol.Bootstrap, configured config.Agent) {
	if bootstrap != nil {
		w.put(where, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.AgentBootstrap}, Data: bootstrap.Encode()})
	}
	document, err := configured.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(where, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.Agent}, Data: map[string]string{names.ConfigKey: document},
	})
	w.put(where, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.Agent}})
}

// expiry deletes credentials that were not fetched in time.
func (w *world) expiry() bool {
	return w.do("expiry", "Expired", func() {
		for _, secret := range list[corev1.Secret](w, onHub) {
			old := !w.now.Before(secret.CreationTimestamp.Add(grant.CredentialLife))
			if secret.Type != protocol.SecretTypeCredential || !old {
				continue
			}
			reader := grant.CredentialAccessName(secret.Annotations[fleet.AnnotationClusterRegistration])
			w.remove(place{onHub, "RoleBinding", secret.Namespace, reader})
			w.remove(place{onHub, "Role", secret.Namespace, reader})
			w.remove(placeOf(onHub, secret))
		}
	})
}

// garbage stands in for Kubernetes: it deletes objects without remaining owners and the content of deleted namespaces.
func (w *world) garbage() bool {
	return w.do("kubernetes", "", func() {
		for _, at := range w.places() {
			owners := w.objects[at].GetOwnerReferences()
			gone := len(owners) > 0 && !slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool {
				found := w.objects[place{onHub, owner.Kind, at.namespace, owner.Name}]
				return found != nil && found.GetUID() == owner.UID
			})
			if gone || w.isNowhere(at) {
				w.deleteAt(at)
			}
		}
	})
}

// isNowhere reports whether an object was in a cluster namespace that no longer exists.
func (w *world) isNowhere(at place) bool {
	return at.cluster == onHub && strings.HasPrefix(at.namespace, "cluster-") && w.objects[place{onHub, "Namespace", "", at.namespace}] == nil
}

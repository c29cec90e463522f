package handshake_test

import (
	"slices"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// work is what everybody would look at now, each in one go.
func (w *world) work() (items []func() bool) {
	owners := map[place]bool{}
	for at := range w.objects {
		owners[at] = true
	}
	for _, owner := range w.sets {
		owners[owner] = true // also of owners that are gone
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
	items = append(items, w.expiry, w.garbage)
	if !w.asleep {
		for _, a := range w.agents {
			items = append(items, a.step)
		}
	}
	return items
}

// mint is the TokenRequest API.
func (w *world) mint(m *handshake.Mint) string {
	w.t.Helper()
	account := find[corev1.ServiceAccount](w, onHub, m.Namespace, m.Account)
	if account == nil {
		w.t.Fatalf("a token is asked for an account that is not there: %+v", m)
	}
	return boundJWT(string(account.UID), w.now.Add(m.Lifetime))
}

func (w *world) token(at place) bool {
	token := find[fleet.ClusterRegistrationToken](w, onHub, at.namespace, at.name)
	if token == nil {
		return w.do("token", "Gone", func() { w.apply(at, nil) })
	}
	account := names.ImportAccount(token.Name, string(token.UID))
	out := ask(w, handshake.Token, handshake.TokenInput{
		Now: w.now, Token: token,
		Account: find[corev1.ServiceAccount](w, onHub, at.namespace, account),
		RightsExist: find[rbacv1.Role](w, onHub, at.namespace, account+"-role") != nil &&
			find[rbacv1.RoleBinding](w, onHub, at.namespace, account+"-to-role") != nil,
		Secret:       find[corev1.Secret](w, onHub, at.namespace, at.name),
		APIServerURL: w.config.APIServerURL, APIServerCA: w.config.APIServerCA, Namespaces: hubNamespaces(),
	})
	if out.Delete {
		return w.do("token", string(out.Stage), func() { w.remove(at) })
	}
	return w.do("token", string(out.Stage), func() {
		children := out.Children
		if out.Mint != nil {
			out.Values.Token = w.mint(out.Mint)
			secret, err := handshake.ValuesSecret(token, out.Values)
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

// cluster gives a Cluster its namespace.
func (w *world) cluster(at place) bool {
	cluster := find[fleet.Cluster](w, onHub, at.namespace, at.name)
	if cluster == nil {
		return false
	}
	name := names.ClusterNamespace(at.namespace, at.name)
	return w.do("cluster", "Settled", func() {
		w.put(onHub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}, func() {
		cluster.Status.Namespace = name
		w.put(onHub, cluster)
	})
}

func (w *world) imports(at place) bool {
	cluster := find[fleet.Cluster](w, onHub, at.namespace, at.name)
	if cluster == nil {
		return false
	}
	tokenAt := place{onHub, "ClusterRegistrationToken", at.namespace, names.ImportToken(at.name)}
	out := ask(w, handshake.Import, handshake.ImportInput{
		Now: w.now, Cluster: cluster,
		Kubeconfig: find[corev1.Secret](w, onHub, at.namespace, cluster.Spec.KubeConfigSecret),
		Token:      find[fleet.ClusterRegistrationToken](w, onHub, at.namespace, tokenAt.name),
		Values:     find[corev1.Secret](w, onHub, at.namespace, tokenAt.name),
		Config:     w.config, Defaults: hubDefaults(), Namespaces: hubNamespaces(),
	})
	return w.do("import", string(out.Stage), func() {
		switch {
		case out.Stage == handshake.ImportNeedsClientID:
			cluster.Spec.ClientID = "client of " + string(cluster.UID)
			w.put(onHub, cluster)
		case out.RenewToken:
			w.remove(tokenAt)
		case out.CreateToken != nil:
			w.put(onHub, out.CreateToken)
		case out.Deploy != nil:
			w.deploy(cluster, out)
		}
	})
}

// deploy applies an agent downstream; the kubeconfig of a Cluster says which cluster that is, and nothing else.
func (w *world) deploy(cluster *fleet.Cluster, out handshake.ImportOutcome) {
	where, values := string(out.Deploy.Kubeconfig), out.Deploy.Values
	if out.Deploy.LeaveNamespace != "" {
		for _, at := range w.places() {
			if at.cluster == where && at.namespace == out.Deploy.LeaveNamespace {
				w.remove(at)
			}
		}
	}
	if out.Deploy.NewRegistration {
		w.remove(place{where, "Secret", values.Namespace, handshake.AgentName})
	}
	w.install(where, values.Namespace, values.Bootstrap, *values.Config)
	note(&cluster.Status, out)
	w.put(onHub, cluster)
}

// install is what an import and `helm install fleet-agent` have in common.
func (w *world) install(where, namespace string, bootstrap *handshake.Bootstrap, configured config.Agent) {
	if bootstrap != nil {
		w.put(where, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: handshake.BootstrapSecret}, Data: bootstrap.Encode()})
	}
	document, err := configured.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(where, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: handshake.AgentName}, Data: map[string]string{names.ConfigKey: document},
	})
	w.put(where, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: handshake.AgentName}})
}

func (w *world) grant(at place) bool {
	request := find[fleet.ClusterRegistration](w, onHub, at.namespace, at.name)
	if request == nil {
		return w.do("grant", "Gone", func() { w.revoke(at) })
	}
	in := w.grantInput(request)
	out := ask(w, handshake.Grant, in)
	if out.Stage == handshake.GrantLeaving {
		return w.do("grant", string(out.Stage), func() { w.revoke(at) })
	}
	writes := []func(){func() {
		if out.CreateCluster != nil {
			w.put(onHub, out.CreateCluster)
		}
		if out.Own != nil {
			request.OwnerReferences = []metav1.OwnerReference{out.Own.Owner}
			request.Annotations = map[string]string{fleet.AnnotationLastSeenAtGrant: out.Own.LastSeen}
			w.put(onHub, request)
		}
	}, func() {
		if len(out.Children) > 0 {
			w.apply(at, out.Children)
		}
		for _, o := range out.Reader {
			w.put(onHub, o.(object))
		}
	}, func() {
		if out.Mint != nil {
			out.Credential.Token = w.mint(out.Mint)
			w.put(onHub, handshake.CredentialSecret(request, in.Namespaces.Registration, out.Credential))
		}
	}, func() {
		for _, name := range out.Superseded {
			w.remove(place{onHub, "ClusterRegistration", at.namespace, name})
		}
	}, func() {
		if out.ClusterName != "" {
			request.Status.ClusterName = out.ClusterName
		}
		request.Status.Granted = out.Granted
		if out.Granted {
			fleet.SetCondition(&request.Status.Conditions, w.now, genericcondition.GenericCondition{Type: fleet.ConditionGranted, Status: corev1.ConditionTrue})
		}
		w.put(onHub, request)
	}}
	return w.do("grant", string(out.Stage), writes...)
}

func (w *world) grantInput(request *fleet.ClusterRegistration) handshake.GrantInput {
	workspace := request.Namespace
	in := handshake.GrantInput{
		Now: w.now, Request: request, Namespaces: hubNamespaces(),
		Derived: find[fleet.Cluster](w, onHub, workspace, names.Cluster(request.Spec.ClientID)),
		Named:   find[fleet.Cluster](w, onHub, workspace, request.Status.ClusterName),
		Asked:   find[fleet.ClusterRegistrationToken](w, onHub, workspace, request.Labels[fleet.LabelRegistrationToken]),
		Credential: find[corev1.Secret](w, onHub, hubNamespaces().Registration,
			names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom)),
	}
	for _, cluster := range list[fleet.Cluster](w, onHub) {
		if cluster.Namespace == workspace && cluster.Spec.ClientID == request.Spec.ClientID {
			in.Clusters = append(in.Clusters, cluster)
		}
	}
	for _, other := range list[fleet.ClusterRegistration](w, onHub) {
		if other.Namespace == workspace && other.Spec.ClientID == request.Spec.ClientID {
			in.Others = append(in.Others, other)
		}
	}
	cluster := handshake.ClusterOf(in)
	if cluster == nil {
		return in
	}
	account := names.RequestAccount(request.Name, string(request.UID))
	in.Account = find[corev1.ServiceAccount](w, onHub, cluster.Status.Namespace, account)
	in.Imported = find[fleet.ClusterRegistrationToken](w, onHub, workspace, names.ImportToken(cluster.Name))
	in.RightsExist = find[rbacv1.Role](w, onHub, workspace, request.Name) != nil &&
		find[rbacv1.RoleBinding](w, onHub, workspace, request.Name) != nil &&
		find[rbacv1.RoleBinding](w, onHub, cluster.Status.Namespace, request.Name) != nil &&
		find[rbacv1.ClusterRoleBinding](w, onHub, "", request.Name+"-content") != nil
	return in
}

// revoke takes everything of a request: its set, its credential and what makes that readable.
func (w *world) revoke(request place) {
	w.apply(request, nil)
	for _, at := range w.places() {
		if w.objects[at].GetAnnotations()[fleet.AnnotationClusterRegistration] == request.name && at.namespace == hubNamespaces().Registration {
			w.remove(at)
		}
	}
}

// expiry ends credentials that nobody has fetched in time.
func (w *world) expiry() bool {
	return w.do("expiry", "Expired", func() {
		for _, secret := range list[corev1.Secret](w, onHub) {
			old := !w.now.Before(secret.CreationTimestamp.Add(handshake.CredentialLife))
			if secret.Type != handshake.SecretTypeCredential || !old {
				continue
			}
			reader := handshake.ReaderName(secret.Annotations[fleet.AnnotationClusterRegistration])
			w.remove(place{onHub, "RoleBinding", secret.Namespace, reader})
			w.remove(place{onHub, "Role", secret.Namespace, reader})
			w.remove(placeOf(onHub, secret))
		}
	})
}

// garbage is Kubernetes: what has lost all its owners goes, and so does what is in a namespace that is gone.
func (w *world) garbage() bool {
	return w.do("kubernetes", "", func() {
		for _, at := range w.places() {
			owners := w.objects[at].GetOwnerReferences()
			gone := len(owners) > 0 && !slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool {
				found := w.objects[place{onHub, owner.Kind, at.namespace, owner.Name}]
				return found != nil && found.GetUID() == owner.UID
			})
			if gone {
				w.remove(at)
			}
		}
	})
}

// accountOf is the account of a bearer token that works, nil for one that does not.
func (w *world) accountOf(bearer string) *corev1.ServiceAccount {
	parsed, err := handshake.ParseAccountToken(bearer)
	if err != nil || !parsed.Expires.IsZero() && !parsed.Expires.After(w.now) {
		return nil
	}
	for _, account := range list[corev1.ServiceAccount](w, onHub) {
		if string(account.UID) == parsed.AccountUID {
			return account
		}
	}
	return nil
}

// may is the API server's decision: whether a bearer token allows a verb on an object.
func (w *world) may(bearer, verb, resource, namespace, name string) bool {
	account := w.accountOf(bearer)
	if account == nil {
		return false
	}
	for _, binding := range list[rbacv1.RoleBinding](w, onHub) {
		if binding.Namespace != namespace || !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == "ServiceAccount" && s.Namespace == account.Namespace && s.Name == account.Name
		}) {
			continue
		}
		rules := clusterRole(binding.RoleRef.Name)
		if binding.RoleRef.Kind == "Role" {
			role := find[rbacv1.Role](w, onHub, namespace, binding.RoleRef.Name)
			if role == nil {
				continue
			}
			rules = role.Rules
		}
		if slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			named := len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name)
			return named && slices.Contains(rule.Verbs, verb) && slices.Contains(rule.Resources, resource)
		}) {
			return true
		}
	}
	return false
}

// clusterRole are the rules of the ClusterRoles that come with the hub, as far as a transcript needs them.
func clusterRole(name string) []rbacv1.PolicyRule {
	if name != names.BundleDeploymentRole {
		return nil
	}
	return []rbacv1.PolicyRule{{Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}}}
}

// seconds is a time as a heartbeat has it.
func seconds(t time.Time) metav1.Time { return metav1.Time{Time: t.Truncate(time.Second)} }

package walls_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Verbs of requests. A put creates an object, or merges into the one of that name.
const (
	put       = "put"
	putStatus = "put status of"
	remove    = "delete"
)

// request is one thing an identity of the attacker does.
type request struct {
	as, verb        string
	resource        schema.GroupVersionResource
	namespace, name string
	body            map[string]any
}

func (r request) String() string {
	text := fmt.Sprintf("%s: %s %s %s/%s", r.as, r.verb, r.resource.Resource, r.namespace, r.name)
	if r.body == nil {
		return text
	}
	body, err := json.Marshal(r.body)
	if err != nil {
		return text + " " + err.Error()
	}
	return text + " " + string(body)
}

// dictionary is what an attacker knows of the others, and of the system.
type dictionary struct {
	attacker, victim tenant
	// names are of all kinds of objects, namespaces of the system and of the victim.
	names, namespaces []string
	// namesakes are of tokens, Clusters and requests that have the set hash of one of the victim's.
	namesakes []string
	// clientIDs and clientRandoms are those of requests that were granted.
	clientIDs, clientRandoms []string
	secrets                  []string
	// accounts are the request account and the import account of each tenant.
	accounts []string
	// kubeconfig reaches the hub with the attacker's own rights.
	kubeconfig string
}

func newDictionary(w *world, requests []fleet.ClusterRegistration, accounts []string, kubeconfig string) dictionary {
	d := dictionary{
		attacker: w.attacker, victim: w.victim, kubeconfig: kubeconfig,
		namespaces: []string{
			w.victim.workspace, w.victim.namespace, framework.LocalWorkspace, framework.Workspace, metav1.NamespaceSystem,
			metav1.NamespaceDefault, names.SystemNamespace, names.RegistrationNamespace(names.SystemNamespace),
		},
		names: []string{
			"db", "kubeconfig", token, "all", "shop", "b1", "workspace-admin", "auditor", names.LocalCluster, names.LocalKubeconfig,
			names.AgentBundle("b1"), names.AgentBundle(w.attacker.cluster),
			names.ImportToken("b1"), names.ImportToken(w.attacker.cluster), names.Cluster(w.victim.clientID),
			names.ControllerConfig, names.Agent, names.AgentBootstrap, names.BundleDeploymentRole, names.ContentRole, "default",
		},
		namesakes: []string{token + ahead, w.victim.cluster + ahead},
		clientIDs: []string{w.attacker.clientID, w.victim.clientID},
		secrets:   []string{"db", "kubeconfig", token, names.LocalKubeconfig, "shop", "fleet-controller-bootstrap"},
	}
	for _, r := range requests {
		d.names = append(d.names, r.Name)
		d.namesakes = append(d.namesakes, r.Name+ahead)
		d.clientRandoms = append(d.clientRandoms, r.Spec.ClientRandom)
		d.secrets = append(d.secrets, names.CredentialSecret(r.Spec.ClientID, r.Spec.ClientRandom))
	}
	d.accounts = accounts
	d.names = append(d.names, d.accounts...)
	return d
}

// generator makes sequences: the same ones from the same seed.
type generator struct {
	*rand.Rand
	dictionary
	// fresh is a name that no earlier sequence has used.
	fresh string
}

// sequence is what the attacker does, one after the other.
func (d dictionary) sequence(seed int64, number int) []request {
	g := generator{rand.New(rand.NewSource(seed*1_000_003 + int64(number))), d, fmt.Sprintf("x%d", number)}
	var all []request
	for range 3 + g.Intn(6) {
		all = append(all, g.request())
	}
	return all
}

func (g generator) chance(percent int) bool { return g.Intn(100) < percent }

func pick[T any](g generator, from ...T) T { return from[g.Intn(len(from))] }

func (g generator) request() request {
	switch roll := g.Intn(100); {
	case roll < 8:
		return g.asAgent()
	case roll < 16:
		return g.asToken()
	case roll < 22:
		return g.removal()
	}
	kinds := []func() request{
		g.cluster, g.cluster, g.cluster, g.clusterStatus, g.clusterStatus, g.deployment, g.deployment, g.bundle, g.bundle,
		g.group, g.mapping, g.registration, g.registrationStatus, g.registrationToken, g.secret, g.secret, g.configMap, g.account,
		g.deploymentStatus, g.bundleStatus,
	}
	r := pick(g, kinds...)()
	if r.namespace == "" {
		r.namespace = g.namespace()
	}
	return r
}

// namespace is mostly one in which the attacker may write.
func (g generator) namespace() string {
	switch roll := g.Intn(100); {
	case roll < 80:
		return g.attacker.workspace
	case roll < 92:
		return g.attacker.namespace
	}
	return pick(g, g.namespaces...)
}

// anyNamespace is one to be named in an object.
func (g generator) anyNamespace() string {
	if g.chance(20) {
		return pick(g, g.attacker.workspace, g.attacker.namespace, "", "nowhere", "no/namespace")
	}
	return pick(g, g.namespaces...)
}

func (g generator) name() string {
	switch roll := g.Intn(100); {
	case roll < 30:
		return g.fresh
	case roll < 35:
		return g.junk()
	}
	return pick(g, g.names...)
}

func (g generator) junk() string {
	return pick(g, strings.Repeat("n", 63), strings.Repeat("long-", 40)+"x", "a.b", "a..b", "-", "x")
}

// sometimes puts a value into a map.
func (g generator) sometimes(percent int, in map[string]any, key string, value func() any) {
	if g.chance(percent) {
		in[key] = value()
	}
}

func (g generator) text(of func() string) func() any { return func() any { return of() } }

func (g generator) object(kind string, r request) request {
	r.body = map[string]any{"apiVersion": r.resource.GroupVersion().String(), "kind": kind}
	if r.verb != putStatus {
		r.body["metadata"] = g.metadata()
	}
	return r
}

// put is an object of fleet.cattle.io of any name.
func (g generator) put(kind, resource string) request {
	return g.object(kind, request{as: asAdmin, verb: put, resource: fleetResource(resource), name: g.name()})
}

func (g generator) metadata() map[string]any {
	meta := map[string]any{}
	g.sometimes(60, meta, "labels", func() any { return g.pairs(g.label) })
	g.sometimes(50, meta, "annotations", func() any { return g.pairs(g.annotation) })
	g.sometimes(10, meta, "finalizers", func() any {
		return []any{pick(g, fleet.FinalizerCluster, fleet.FinalizerBundle, fleet.FinalizerBundleDeployment, "example.com/hold")}
	})
	g.sometimes(10, meta, "ownerReferences", func() any {
		return []any{map[string]any{
			"apiVersion": fleet.SchemeGroupVersion.String(),
			"kind":       pick(g, "Cluster", "ClusterRegistration", "ClusterRegistrationToken", "Bundle"),
			"name":       g.name(), "uid": pick(g, "", "0", "6f0a7f0e-1111-2222-3333-444455556666"), "controller": true,
		}}
	})
	return meta
}

func (g generator) pairs(one func() (key, value string)) map[string]any {
	pairs := map[string]any{}
	for range 1 + g.Intn(4) {
		key, value := one()
		pairs[key] = value
	}
	return pairs
}

func (g generator) label() (key, value string) {
	switch g.Intn(9) {
	case 0:
		return fleet.LabelClusterManagement, pick(g, "true", "other", "")
	case 1:
		return pick(g, fleet.LabelBundleNamespace, fleet.LabelClusterNamespace), g.anyNamespace()
	case 2:
		key = pick(g, fleet.LabelBundleName, fleet.LabelCluster, fleet.LabelBundleDeployment, fleet.LabelRegistrationToken)
		return key, pick(g, g.names...)
	case 3:
		return fleet.LabelManaged, "true"
	case 4:
		gvk := fleet.SchemeGroupVersion.String() + ", Kind=ClusterRegistration"
		owner := names.Owner{GVK: gvk, Namespace: victim, Name: pick(g, g.names...)}
		return fleet.LabelSetHash, names.SetHash(grant.SetID, owner)
	case 5:
		key = pick(g, fleet.LabelShardRef, fleet.LabelContentName, fleet.LabelNonManagedAgent, fleet.LabelSetPrune)
		return key, pick(g, "", "true", "false", "shard0")
	case 6:
		return fleet.LabelClusterDisplayName, pick(g, g.names...)
	case 7:
		return "app.kubernetes.io/managed-by", "Helm"
	}
	return "env", pick(g, "prod", "dev")
}

func (g generator) annotation() (key, value string) {
	switch g.Intn(6) {
	case 0:
		return fleet.AnnotationCluster, pick(g, "b1", g.attacker.cluster, "local")
	case 1:
		key = pick(g, fleet.AnnotationClusterNamespace, fleet.AnnotationClusterRegistrationNamespace,
			fleet.AnnotationSetOwnerNamespace)
		return key, g.anyNamespace()
	case 2:
		key = pick(g, fleet.AnnotationClusterRegistration, fleet.AnnotationSetOwnerName, annotation.ConfirmTakeover)
		return key, pick(g, g.names...)
	case 3:
		key = pick(g, annotation.TakeOverAgent, fleet.AnnotationRolloutRemaining, annotation.Watched,
			fleet.AnnotationKeepResources)
		return key, "true"
	case 4:
		return fleet.AnnotationSetID, pick(g, grant.SetID, names.AgentBundleSet, names.AgentBootstrap)
	}
	return "kubernetes.io/service-account.name", pick(g, append([]string{"default"}, g.accounts...)...)
}

func fleetResource(name string) schema.GroupVersionResource {
	return fleet.SchemeGroupVersion.WithResource(name)
}

func coreResource(name string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(name)
}

// clusterName is often the cluster that has an agent.
func (g generator) clusterName() string {
	switch roll := g.Intn(100); {
	case roll < 45:
		return g.attacker.cluster
	case roll < 75:
		return g.fresh
	}
	return g.name()
}

func (g generator) cluster() request {
	r := g.object("Cluster", request{as: asAdmin, verb: put, resource: fleetResource(client.Clusters), name: g.clusterName()})
	if g.chance(25) {
		r.body["metadata"] = map[string]any{"labels": map[string]any{fleet.LabelClusterManagement: pick(g, "true", "other")}}
	}
	spec := map[string]any{}
	g.sometimes(30, spec, "clientID", g.text(func() string { return pick(g, g.clientIDs...) }))
	if r.name == g.attacker.cluster { // else it would lose its agent
		delete(spec, "clientID")
	}
	if g.chance(45) && r.name != g.attacker.cluster { // one that imports asks for its agent's token all the time
		spec["kubeConfigSecret"] = pick(g, "kubeconfig", names.LocalKubeconfig, names.LocalKubeconfig, "db", g.fresh)
		g.sometimes(70, spec, "kubeConfigSecretNamespace", g.text(g.anyNamespace))
	}
	g.sometimes(15, spec, "agentNamespace", g.text(g.anyNamespace))
	g.sometimes(15, spec, "redeployAgentGeneration", func() any { return int64(g.Intn(3)) })
	g.sometimes(15, spec, "agentPullSecrets", func() any { return []any{map[string]any{"name": pick(g, g.secrets...)}} })
	g.sometimes(15, spec, "templateValues", func() any {
		return map[string]any{"namespace": g.anyNamespace(), "name": pick(g, g.names...)}
	})
	g.sometimes(15, spec, "paused", func() any { return g.chance(50) })
	r.body["spec"] = spec
	return r
}

func (g generator) clusterStatus() request {
	r := g.object("Cluster", request{
		as: asAdmin, verb: putStatus, resource: fleetResource(client.Clusters),
		name: g.clusterName(), namespace: g.attacker.workspace,
	})
	status := map[string]any{}
	g.sometimes(70, status, "namespace", g.text(g.anyNamespace))
	g.sometimes(30, status, "agent", func() any {
		return map[string]any{"lastSeen": "2031-01-01T00:00:00Z", "namespace": g.anyNamespace()}
	})
	g.sometimes(20, status, "apiServerURL", g.text(func() string { return "https://127.0.0.1:1" }))
	g.sometimes(20, status, "agentDeployedGeneration", func() any { return int64(g.Intn(3)) })
	g.sometimes(20, status, "cattleNamespaceMigrated", func() any { return g.chance(50) })
	r.body["status"] = status
	return r
}

func (g generator) downstreamResources() any {
	var all []any
	for range 1 + g.Intn(4) {
		kind := pick(g, "Secret", "Secret", "Secret", "ConfigMap", "secret")
		all = append(all, map[string]any{"kind": kind, "name": pick(g, g.secrets...)})
	}
	return all
}

// options are those of a Bundle, of one of its targets, and of a BundleDeployment.
func (g generator) options(in map[string]any) {
	g.sometimes(60, in, "downstreamResources", g.downstreamResources)
	g.sometimes(30, in, "namespace", g.text(g.anyNamespace))
	g.sometimes(20, in, "defaultNamespace", g.text(g.anyNamespace))
	g.sometimes(20, in, "serviceAccount", func() any { return pick(g, append([]string{"default"}, g.accounts...)...) })
	g.sometimes(40, in, "helm", func() any {
		helm := map[string]any{"values": map[string]any{
			"looked-up": pick(g, `${ .ClusterName }`, `${ .ClusterValues.region }`, `${ index .ClusterLabels "env" }`,
				`${ .ClusterNamespace }`, `${ env "HOME" }`, `{{ lookup "v1" "Secret" "`+victim+`" "db" }}`),
		}}
		g.sometimes(50, helm, "valuesFrom", func() any {
			return []any{map[string]any{pick(g, "secretKeyRef", "configMapKeyRef"): map[string]any{
				"name": pick(g, g.secrets...), "namespace": g.anyNamespace(), "key": pick(g, "password", "value", "values", "url"),
			}}}
		})
		return helm
	})
}

func (g generator) bundle() request {
	name := pick(g, "shop", g.fresh, g.fresh, g.name())
	r := g.object("Bundle", request{as: asAdmin, verb: put, resource: fleetResource(client.Bundles), name: name})
	spec := map[string]any{"resources": []any{map[string]any{"name": "cm.yaml", "content": "# of " + g.fresh + "\n"}}}
	g.options(spec)
	g.sometimes(85, spec, "targets", func() any {
		target := map[string]any{}
		switch g.Intn(4) {
		case 0:
			target["clusterName"] = pick(g, g.names...)
		case 1:
			target["clusterGroup"] = pick(g, g.names...)
		default:
			target["clusterSelector"] = map[string]any{}
		}
		g.options(target)
		return []any{target}
	})
	g.sometimes(20, spec, "dependsOn", func() any { return []any{map[string]any{"name": pick(g, g.names...)}} })
	g.sometimes(15, spec, "contentsId", g.text(func() string { return pick(g, g.names...) }))
	g.sometimes(15, spec, "helmOpOptions", func() any { return map[string]any{"helmOpSecretName": pick(g, g.secrets...)} })
	g.sometimes(15, spec, "valuesHash", g.text(func() string { return "0000" }))
	r.body["spec"] = spec
	return r
}

func (g generator) bundleStatus() request {
	r := g.object("Bundle", request{
		as: asAdmin, verb: putStatus, resource: fleetResource(client.Bundles), name: pick(g, "shop", g.fresh),
	})
	status := map[string]any{"resourcesSha256Sum": "0", "observedGeneration": int64(9)}
	g.sometimes(50, status, "resourceKey", func() any { return g.anySecret() })
	r.body["status"] = status
	return r
}

// anySecret is a list of resources.
func (g generator) anySecret() []any {
	return []any{map[string]any{
		"kind": "Secret", "apiVersion": "v1", "namespace": g.anyNamespace(), "name": pick(g, g.secrets...),
	}}
}

// deployment is made as the controllers make one, for whatever Bundle and Cluster.
func (g generator) deployment() request {
	r := g.object("BundleDeployment", request{
		as: asAdmin, verb: put, resource: fleetResource(client.BundleDeployments), name: pick(g, "shop", g.fresh, g.name()),
	})
	switch roll := g.Intn(100); {
	case roll < 25: // in its place, for a Bundle of another tenant
		r.namespace = g.attacker.namespace
		r.body["metadata"] = deploymentOf(victim, r.name, attacker, g.attacker.cluster)
	case roll < 70:
		r.body["metadata"] = deploymentOf(
			g.anyNamespace(), pick(g, "shop", names.AgentBundle("b1"), names.AgentBundle(g.attacker.cluster), g.fresh),
			pick(g, victim, attacker, g.anyNamespace()), pick(g, "b1", g.attacker.cluster, "local"))
	}
	spec, options := map[string]any{}, map[string]any{}
	g.options(options)
	spec[pick(g, "options", "options", "stagedOptions")] = options
	g.sometimes(50, spec, "deploymentID", g.text(func() string { return pick(g, "s-0:0", ":", "s-1") }))
	g.sometimes(30, spec, "valuesHash", g.text(func() string { return "0" }))
	g.sometimes(30, spec, "downstreamResourcesGeneration", func() any { return int64(1 + g.Intn(2)) })
	g.sometimes(20, spec, "helmChartOptions", func() any { return map[string]any{"helmOpSecretName": pick(g, g.secrets...)} })
	r.body["spec"] = spec
	return r
}

// deploymentOf is the metadata of a BundleDeployment that says whose it is.
func deploymentOf(workspace, bundle, clusterWorkspace, cluster string) map[string]any {
	return map[string]any{"labels": map[string]any{
		fleet.LabelBundleNamespace: workspace, fleet.LabelBundleName: bundle, fleet.LabelManaged: "true",
		fleet.LabelClusterNamespace: clusterWorkspace, fleet.LabelCluster: cluster,
	}}
}

func (g generator) deploymentStatus() request {
	r := g.object("BundleDeployment", request{
		as: asAdmin, verb: putStatus, resource: fleetResource(client.BundleDeployments), name: pick(g, "shop", g.fresh),
	})
	r.body["status"] = map[string]any{
		"ready": g.chance(50), "appliedDeploymentID": pick(g, "s-0:0", "s-1"),
		"release": g.anyNamespace() + "/" + pick(g, g.names...), "resources": g.anySecret(),
	}
	return r
}

func (g generator) group() request {
	r := g.put("ClusterGroup", client.ClusterGroups)
	r.body["spec"] = map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"env": pick(g, "prod", "dev")}}}
	return r
}

// mapping leads to the workspaces of others, whose Namespaces refuse the attacker's Bundles.
func (g generator) mapping() request {
	r := g.put("BundleNamespaceMapping", client.Mappings)
	selector := map[string]any{}
	g.sometimes(80, selector, "matchLabels", func() any {
		namespace := pick(g, g.attacker.workspace, g.attacker.namespace, victim, victim, neutral)
		return map[string]any{corev1.LabelMetadataName: namespace}
	})
	r.body["bundleSelector"], r.body["namespaceSelector"] = map[string]any{}, selector
	return r
}

func (g generator) registration() request {
	r := g.put("ClusterRegistration", client.ClusterRegistrations)
	r.name = pick(g, r.name, r.name, pick(g, g.namesakes...))
	r.body["spec"] = g.registrationSpec()
	return r
}

func (g generator) registrationSpec() map[string]any {
	spec := map[string]any{ // seldom the own agent's, which is replaced by that
		"clientID": pick(g, g.fresh, g.fresh, g.fresh, g.fresh, g.fresh, g.victim.clientID, g.victim.clientID,
			pick(g, g.clientIDs...)),
		"clientRandom": pick(g, append([]string{g.fresh}, g.clientRandoms...)...),
	}
	g.sometimes(50, spec, "clusterLabels", func() any { return g.pairs(g.label) })
	return spec
}

func (g generator) registrationStatus() request {
	r := g.object("ClusterRegistration", request{
		as: asAdmin, verb: putStatus, resource: fleetResource(client.ClusterRegistrations), name: g.name(),
	})
	r.body["status"] = map[string]any{
		"granted": g.chance(70), "clusterName": pick(g, "b1", g.attacker.cluster, "local", g.fresh),
	}
	return r
}

func (g generator) registrationToken() request {
	r := g.put("ClusterRegistrationToken", client.Tokens)
	r.name = pick(g, r.name, pick(g, g.namesakes...))
	r.body["spec"] = map[string]any{"ttl": pick(g, "1h", "240h")}
	return r
}

func (g generator) secret() request {
	name := pick(g, g.fresh, pick(g, g.secrets...), g.name())
	r := g.object("Secret", request{as: asAdmin, verb: put, resource: coreResource("secrets"), name: name})
	r.body["type"] = pick(g, "Opaque", "Opaque", fleet.SecretTypeBundleValues, fleet.SecretTypeBundleDeployment,
		string(protocol.SecretTypeCredential), string(protocol.SecretTypeValues), string(corev1.SecretTypeServiceAccountToken))
	r.body["stringData"] = map[string]any{
		"value": g.kubeconfig, "apiServerURL": "https://127.0.0.1:1", "password": "own", "clusterName": pick(g, "b1", "local"),
		"deploymentNamespace": g.anyNamespace(), "clusterNamespace": g.anyNamespace(),
	}
	return r
}

func (g generator) configMap() request {
	r := g.object("ConfigMap", request{as: asAdmin, verb: put, resource: coreResource("configmaps"), name: g.name()})
	r.body["data"] = map[string]any{"config": `{"bootstrap":{"namespace":"` + attacker + `"}}`, "url": "own"}
	return r
}

func (g generator) account() request {
	return g.object("ServiceAccount", request{
		as: asAdmin, verb: put, resource: coreResource("serviceaccounts"), name: g.name(), namespace: g.attacker.workspace,
	})
}

// removal takes away something, but seldom what the attacker's agent lives on.
func (g generator) removal() request {
	resource := pick(g, fleetResource(client.Clusters), fleetResource(client.Bundles), fleetResource(client.BundleDeployments),
		fleetResource(client.ClusterGroups), fleetResource(client.ClusterRegistrations),
		coreResource("secrets"), coreResource("configmaps"))
	name := pick(g, g.fresh, g.fresh, g.name())
	return request{as: asAdmin, verb: remove, resource: resource, namespace: g.namespace(), name: name}
}

// asAgent is what the agent of the attacker's cluster is allowed, and what it is not.
func (g generator) asAgent() request {
	var r request
	switch g.Intn(4) {
	case 0:
		r = g.deploymentStatus()
		r.namespace = g.attacker.namespace
	case 1:
		r = pick(g, g.deployment, g.secret, g.bundle, g.registration)()
		r.namespace = g.namespace()
	default:
		r = g.clusterStatus()
		r.name = g.attacker.cluster
	}
	r.as = asAgent
	return r
}

func (g generator) asToken() request {
	r := g.registration()
	if g.chance(15) {
		r = pick(g, g.secret, g.cluster, g.bundle)()
	}
	r.as, r.namespace = asToken, g.attacker.workspace
	if g.chance(5) {
		r.namespace = pick(g, g.namespaces...)
	}
	return r
}

package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/checktest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

func TestHealthyCluster_PassesEveryCheck(t *testing.T) {
	for _, row := range check.Run(Checks(), healthy(t), nil) {
		if row.Verdict != check.OK || row.Fix != "" {
			t.Errorf("%+v", row)
		}
	}
}

// fault is a problem that one check has to find.
type fault = checktest.Fault[*Facts]

const (
	in         = " -n cattle-fleet-system "
	logs       = "kubectl --context east logs" + in + "deployment/fleet-agent"
	describe   = "kubectl --context east describe pods" + in + "-l app=fleet-agent"
	restart    = "kubectl --context east rollout restart" + in + "deployment/fleet-agent"
	repair     = "fleet --context HUB repair east -n fleet-default"
	rejoin     = "fleet --context HUB token create NAME --cluster NAME -n WORKSPACE"
	deployed   = "Deployment cattle-fleet-system/fleet-agent"
	onePod     = "Pod cattle-fleet-system/fleet-agent-1-a"
	credential = "Secret cattle-fleet-system/fleet-agent"
	bootstrap  = "Secret cattle-fleet-system/fleet-agent-bootstrap"
	settings   = "ConfigMap cattle-fleet-system/fleet-agent"
	onLease    = "Lease cattle-fleet-system/fleet-agent"
	role       = "cattle-fleet-system-fleet-agent-role"
	newRole    = "kubectl --context east create clusterrole " + role + " '--verb=*' '--resource=*.*' '--non-resource-url=*'"
	newBinding = "kubectl --context east create clusterrolebinding " + role + "-binding --clusterrole=" + role + " --serviceaccount=cattle-fleet-system:fleet-agent"
	newAccount = "kubectl --context east create serviceaccount" + in + "fleet-agent"
	renew      = "on the hub, renew the certificate of the API server, with kubeadm: kubeadm certs renew apiserver"
	setClock   = "on the nodes whose clock is wrong: timedatectl set-ntp true"
)

func refused(message string) func(*Facts) {
	return func(f *Facts) {
		f.Deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: message}}
	}
}

func faults() map[string]fault {
	all := map[string]fault{}
	for _, group := range []map[string]fault{workloadFaults(), podFaults(), credentialFaults(), hubFaults(), rightsFaults(), releaseFaults()} {
		for name, one := range group {
			all[name] = one
		}
	}
	return all
}

func workloadFaults() map[string]fault {
	other := Workload{Kind: KindDeployment, Namespace: "other", Running: true, Image: "rancher/fleet-agent:v0.12"}
	old := Workload{Kind: KindStatefulSet, Namespace: system, Running: true}
	return map[string]fault{
		"API server does not answer": {"agent-api", func(f *Facts) { f.Err = errors.New("no\x1broute") }, "", check.Failed, "no route", "kubectl --context east cluster-info"},
		"namespace is missing":       {"agent-namespace", func(f *Facts) { f.Place = nil; f.Credential = Credential{} }, "Namespace cattle-fleet-system", check.Failed, "does not exist", rejoin},
		"namespace is being deleted": {"agent-namespace", func(f *Facts) {
			f.Place.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating, Conditions: []corev1.NamespaceCondition{
				{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Message: "finalizer example.com/x in 1 resource"},
				{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Message: "discovered"},
			}}
		}, "Namespace cattle-fleet-system", check.Failed, "being deleted: finalizer example.com/x in 1 resource", "kubectl --context east describe namespace cattle-fleet-system"},
		"Deployment is missing":     {"agent-deployment", func(f *Facts) { f.Deployment = nil }, deployed, check.Failed, "does not exist", repair},
		"Deployment is scaled to 0": {"agent-deployment", func(f *Facts) { f.Deployment.Spec.Replicas = new(int32(0)) }, deployed, check.Failed, "scaled to 0", "kubectl --context east scale" + in + "deployment/fleet-agent --replicas=1"},
		"rollout is paused":         {"agent-deployment", func(f *Facts) { f.Deployment.Spec.Paused = true }, deployed, check.Warning, "paused", "kubectl --context east rollout resume" + in + "deployment/fleet-agent"},
		"container runs, not ready": {"agent-deployment", func(f *Facts) { f.Deployment.Status.ReadyReplicas = 0 }, deployed, check.Failed, "0 of 1 pods", logs},
		"no container runs":         {"agent-deployment", func(f *Facts) { f.Deployment.Status.ReadyReplicas, f.Pods = 0, nil }, deployed, check.Failed, "0 of 1 pods", describe},
		"a pod is not ready":        {"agent-deployment", func(f *Facts) { f.Deployment.Spec.Replicas = new(int32(2)) }, deployed, check.Warning, "1 of 2 pods", describe},
		"second agent":              {"agent-others", func(f *Facts) { f.Agents = append(f.Agents, other) }, "Deployment other/fleet-agent", check.Failed, "same scope (none) runs on this cluster: image rancher/fleet-agent:v0.12", "kubectl --context east delete deployment -n other fleet-agent"},
		"agent of an old release":   {"agent-others", func(f *Facts) { f.Agents = append(f.Agents, old) }, "StatefulSet cattle-fleet-system/fleet-agent", check.Failed, "same scope", "kubectl --context east delete statefulset" + in + "fleet-agent"},
		"agent in another namespace": {
			"agent-others", func(f *Facts) { f.Agents = []Workload{other} }, "Deployment other/fleet-agent", check.Warning, "there is none in namespace cattle-fleet-system",
			"fleet --context east doctor agent --agent-namespace other",
		},
	}
}

func podFaults() map[string]fault {
	return map[string]fault{
		"quota": {
			"agent-pods-created", refused(`pods "a" is forbidden: exceeded quota: small, requested: memory=128Mi,pods=1, used: memory=1Gi,pods=2, limited: memory=1Gi,pods=2`),
			deployed, check.Failed, "exceeded quota: small", "kubectl --context east patch resourcequota" + in + `small --type=merge -p '{"spec":{"hard":{"memory":"1152Mi","pods":"3"}}}'`,
		},
		"pod security": {
			"agent-pods-created", refused(`pods "a" is forbidden: violates PodSecurity "restricted:latest": seccompProfile`), deployed, check.Failed, "violates PodSecurity",
			"kubectl --context east label namespace cattle-fleet-system --overwrite pod-security.kubernetes.io/enforce=baseline",
		},
		"pod security, with hostNetwork": {"agent-pods-created", func(f *Facts) {
			f.Deployment.Spec.Template.Spec.HostNetwork = true
			refused(`violates PodSecurity "baseline:latest": host namespaces`)(f)
		}, deployed, check.Failed, "violates PodSecurity", "kubectl --context east label namespace cattle-fleet-system --overwrite pod-security.kubernetes.io/enforce=privileged"},
		"admission webhook": {"agent-pods-created", refused(`admission webhook "policy" denied the request`), deployed, check.Failed, "webhook", "kubectl --context east describe replicasets" + in + "-l app=fleet-agent"},
		"account is missing, by Event": {"agent-pods-created", func(f *Facts) {
			f.Pods = nil
			event := func(name, message string, since time.Duration) corev1.Event {
				return corev1.Event{InvolvedObject: corev1.ObjectReference{Name: name}, Message: message, LastTimestamp: clitest.Ago(since)}
			}
			f.Refused = []corev1.Event{event("other-1", "x", 0), event("fleet-agent-1", "error looking up service account a/b", time.Minute), event("fleet-agent-1", "old", time.Hour)}
		}, deployed, check.Failed, "error looking up service account", newAccount},
		"no node fits": {"agent-pods-scheduled", func(f *Facts) {
			f.Pods = []corev1.Pod{pod(func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}
			})}
		}, onePod, check.Failed, "0/3 nodes are available", describe},
		"image is missing": {"agent-pods-image", container(func(s *corev1.ContainerStatus) { s.State = waiting("ImagePullBackOff", "not found") }), onePod, check.Failed, "image fleethub/fleet-agent:v1: ImagePullBackOff: not found", describe},
		"image was changed": {"agent-pods-image", func(f *Facts) {
			f.Deployment.Annotations = map[string]string{"deployment.kubernetes.io/revision": "2"}
			container(func(s *corev1.ContainerStatus) { s.State = waiting("ErrImagePull", "not found") })(f)
		}, onePod, check.Failed, "ErrImagePull", "kubectl --context east rollout undo" + in + "deployment/fleet-agent"},
		"out of memory": {"agent-pods-memory", func(f *Facts) {
			f.Deployment.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
			container(func(s *corev1.ContainerStatus) { s.LastTerminationState = ended("OOMKilled", 137, time.Minute) })(f)
		}, onePod, check.Failed, "was OOM-killed 60s ago (0 restarts); its memory limit is 100Mi", "kubectl --context east set resources" + in + "deployment/fleet-agent -c fleet-agent --limits=memory=200Mi"},
		"out of memory without a limit": {
			"agent-pods-memory", container(func(s *corev1.ContainerStatus) { s.State = ended("OOMKilled", 137, time.Minute) }), onePod, check.Failed, "its memory limit is none",
			"kubectl --context east set resources" + in + "deployment/fleet-agent -c fleet-agent --limits=memory=512Mi",
		},
		"crash loop": {"agent-pods-running", container(func(s *corev1.ContainerStatus) {
			s.State, s.LastTerminationState, s.RestartCount = waiting("CrashLoopBackOff", "back-off"), ended("Error", 1, time.Minute), 7
		}), onePod, check.Failed, "CrashLoopBackOff, 7 restarts): exit code 1: no identity", "kubectl --context east logs" + in + "deployment/fleet-agent --previous"},
		"container cannot be created": {"agent-pods-running", container(func(s *corev1.ContainerStatus) { s.State = waiting("CreateContainerConfigError", "no Secret x") }), onePod, check.Failed, "CreateContainerConfigError: no Secret x", describe},
		"container has ended":         {"agent-pods-running", container(func(s *corev1.ContainerStatus) { s.State = ended("Error", 2, 2*time.Hour) }), onePod, check.Failed, "exit code 2", logs},
		"container has failed before": {"agent-pods-running", container(func(s *corev1.ContainerStatus) { s.LastTerminationState = ended("Error", 2, time.Minute) }), onePod, check.Warning, "ended 60s ago", "kubectl --context east logs" + in + "deployment/fleet-agent --previous"},
	}
}

func credentialFaults() map[string]fault {
	none := func(f *Facts) { f.Credential = Credential{} }
	asked := func(since time.Duration) func(*Facts) {
		return func(f *Facts) {
			f.Credential = Credential{}
			f.Bootstrap = Bootstrap{Exists: true, Since: clitest.Noon().Add(-since), Server: server, Workspace: "fleet-default"}
		}
	}
	left := func(change func(*Bootstrap)) func(*Facts) {
		return func(f *Facts) {
			f.Bootstrap = Bootstrap{Exists: true, Since: clitest.Noon().Add(-time.Hour), Server: server + "/"}
			if change != nil {
				change(&f.Bootstrap)
			}
		}
	}
	drop := "kubectl --context east delete secret" + in + "fleet-agent-bootstrap"
	return map[string]fault{
		"ConfigMap is missing":        {"agent-settings", func(f *Facts) { f.Settings = Settings{} }, settings, check.Warning, "does not exist", repair},
		"ConfigMap cannot be read":    {"agent-settings", func(f *Facts) { f.Settings.Err = errors.New("line 3") }, settings, check.Failed, "line 3", repair},
		"no credential":               {"agent-credential", none, credential, check.Failed, "neither a credential nor", rejoin},
		"registration is in progress": {"agent-credential", asked(time.Minute), credential, check.Warning, "is being registered", logs},
		"registration is stuck":       {"agent-credential", asked(time.Hour), credential, check.Failed, "no credential 60m after", logs},
		"credential is incomplete":    {"agent-credential", func(f *Facts) { f.Credential.Err = protocol.ErrIncomplete }, credential, check.Failed, "cannot be used: incomplete", repair},
		"token has expired":           {"agent-credential-expiry", func(f *Facts) { f.Credential.Expires = clitest.Noon().AddDate(0, 0, -1) }, credential, check.Failed, "expired on 2026-05-03", repair},
		"token of a day was not renewed": {"agent-credential-expiry", func(f *Facts) {
			f.Credential.Expires, f.Credential.Lifetime = clitest.Noon().Add(4*time.Hour), 24*time.Hour
		}, credential, check.Warning, "expires in 4h", repair},
		"token expires soon":                                  {"agent-credential-expiry", func(f *Facts) { f.Credential.Expires = clitest.Noon().AddDate(0, 0, 7) }, credential, check.Warning, "expires in 7d", repair},
		"bootstrap is left over":                              {"agent-bootstrap", left(nil), bootstrap, check.Warning, "still exists after 60m", drop},
		"move to another hub":                                 {"agent-bootstrap", left(func(b *Bootstrap) { b.Server = "https://new.example.com" }), bootstrap, check.Warning, "for https://new.example.com, is still pending", logs},
		"bootstrap is incomplete":                             {"agent-bootstrap", left(func(b *Bootstrap) { b.Err = protocol.ErrIncomplete }), bootstrap, check.Warning, "incomplete", drop},
		"bootstrap is incomplete, and there is no credential": {"agent-bootstrap", func(f *Facts) { none(f); f.Bootstrap = Bootstrap{Exists: true, Err: protocol.ErrIncomplete} }, bootstrap, check.Failed, "incomplete", rejoin},
	}
}

func answered(code int) error { return &hubclient.StatusError{Code: code} }

func hubFaults() map[string]fault {
	failed := func(err error) func(*Facts) { return func(f *Facts) { f.Probe = Probe{Sent: true, Err: err} } }
	accept := func(code int) func(*Facts) { return func(f *Facts) { f.Probe.AcceptErr = answered(code) } }
	return map[string]fault{
		"URL is not https":          {"agent-hub-url", func(f *Facts) { f.Credential.Server = "http://hub" }, credential, check.Failed, "not an https URL", "kubectl --context east delete secret" + in + "fleet-agent && " + repair},
		"strict without a CA":       {"agent-hub-ca", func(f *Facts) { f.Credential.CA = nil }, credential, check.Failed, "TLS mode is strict", repair},
		"CA is not PEM":             {"agent-hub-ca", func(f *Facts) { f.Credential.CA = []byte("x") }, credential, check.Failed, "no certificate in PEM", repair},
		"certificate expires soon":  {"agent-hub-certificate", func(f *Facts) { f.Probe.Answer.Expires = clitest.Noon().AddDate(0, 0, 10) }, credential, check.Warning, "expires in 10d", renew},
		"certificate expires now":   {"agent-hub-certificate", func(f *Facts) { f.Probe.Answer.Expires = clitest.Noon().AddDate(0, 0, 1) }, credential, check.Failed, "expires in 24h", renew},
		"certificate of another CA": {"agent-hub-certificate", failed(foreign.ErrUntrusted), credential, check.Failed, "not signed by the CA in the Secret", repair},
		"certificate has expired":   {"agent-hub-certificate", failed(foreign.ErrExpired), credential, check.Failed, "has expired or is not valid yet", renew},
		"server redirects":          {"agent-hub-certificate", failed(foreign.ErrRedirected), credential, check.Failed, "redirects", repair},
		"no server":                 {"agent-hub-certificate", failed(fmt.Errorf("%w: refused", foreign.ErrUnreachable)), credential, check.Warning, "from this machine: the API server cannot be reached: refused. The agent's pods may still reach it", logs},
		"hub is not ready":          {"agent-hub-ready", func(f *Facts) { f.Probe.ReadyErr = answered(500) }, credential, check.Failed, "status 500", "kubectl --context HUB get --raw '/readyz?verbose'"},
		"readyz is forbidden":       {"agent-hub-ready", func(f *Facts) { f.Probe.ReadyErr = answered(403) }, credential, check.Warning, "status 403", "kubectl --context HUB describe clusterrolebinding system:public-info-viewer"},
		"identity is revoked":       {"agent-hub-accepts", accept(401), credential, check.Failed, "rejects the token (401)", repair},
		"rights are deleted":        {"agent-hub-accepts", accept(403), credential, check.Failed, "the rights of Cluster fleet-default/east were deleted", repair},
		"Cluster is deleted":        {"agent-hub-accepts", accept(404), credential, check.Failed, "Cluster fleet-default/east does not exist", repair},
		"hub is overloaded":         {"agent-hub-accepts", accept(429), credential, check.Warning, "status 429", "run the command again"},
		"no heartbeat":              {"agent-hub-heartbeat", func(f *Facts) { f.Probe.Seen = hubclient.Seen{} }, credential, check.Failed, "no heartbeat", logs},
		"old heartbeat":             {"agent-hub-heartbeat", func(f *Facts) { f.Probe.Seen.LastSeen = clitest.Noon().Add(-46 * time.Minute) }, credential, check.Failed, "46m old, and the interval is 15m0s", restart},
		"old heartbeat, by the interval": {"agent-hub-heartbeat", func(f *Facts) {
			env(corev1.EnvVar{Name: "CHECKIN_INTERVAL", Value: "10s"})(f)
		}, credential, check.Failed, "the interval is 10s", restart},
		"heartbeat of another credential": {"agent-hub-heartbeat", func(f *Facts) { f.Probe.Seen.Account = "uid-of-another" }, credential, check.Failed, "came with another credential", restart},
		"clocks differ":                   {"agent-clock", func(f *Facts) { f.Clock.Offset = -10 * time.Minute }, "", check.Failed, "API server is 10m0s behind the hub's", setClock},
		"clocks differ a little":          {"agent-clock", func(f *Facts) { f.Probe.Answer.Offset = -2 * time.Minute }, "", check.Warning, "2m0s ahead of the hub's", setClock},
		"clock of this machine":           {"agent-clock", func(f *Facts) { f.Clock.Offset, f.Probe.Answer.Offset = time.Minute, time.Minute }, "", check.Warning, "1m0s ahead of that of this machine", setClock},
		"proxy is malformed":              {"agent-proxy", env(corev1.EnvVar{Name: "HTTPS_PROXY", Value: "ftp://user:CANARY@proxy:21"}), deployed, check.Failed, "HTTPS_PROXY is not the URL of a proxy", "kubectl --context east set env" + in + "deployment/fleet-agent HTTPS_PROXY-"},
	}
}

func rightsFaults() map[string]fault {
	noRights := func(role, binding bool) func(*Facts) {
		return func(f *Facts) { f.HasRights, f.HasRole, f.HasBinding = false, role, binding }
	}
	byHelm := func(f *Facts) {
		f.Deployment.Annotations = map[string]string{"meta.helm.sh/release-name": "fleet-agent"}
	}
	return map[string]fault{
		"account is missing": {"agent-account", func(f *Facts) { f.HasAccount = false }, "ServiceAccount cattle-fleet-system/fleet-agent", check.Failed, "does not exist", newAccount + " && " + restart},
		"account of a release is missing": {
			"agent-account", func(f *Facts) { f.HasAccount, f.Pods = false, nil; byHelm(f) }, "ServiceAccount cattle-fleet-system/fleet-agent", check.Failed, "does not exist",
			newAccount + " && kubectl --context east annotate serviceaccount" + in + "fleet-agent meta.helm.sh/release-name=fleet-agent meta.helm.sh/release-namespace=cattle-fleet-system" +
				" && kubectl --context east label serviceaccount" + in + "fleet-agent app.kubernetes.io/managed-by=Helm",
		},
		"account of no agent is missing": {"agent-account", func(f *Facts) { f.HasAccount, f.Deployment = false, nil }, "ServiceAccount cattle-fleet-system/fleet-agent", check.Failed, "does not exist", repair},
		"binding is missing":             {"agent-rights", noRights(true, false), "ClusterRoleBinding " + role + "-binding", check.Failed, "the ClusterRoleBinding does not exist", newBinding},
		"role is missing":                {"agent-rights", noRights(false, true), "ClusterRole " + role, check.Failed, "the ClusterRole does not exist", newRole},
		"role and binding are missing":   {"agent-rights", noRights(false, false), "ClusterRole " + role, check.Failed, "and its binding do not exist", newRole + " && " + newBinding},
		"role was changed": {
			"agent-rights", noRights(true, true), "ClusterRole " + role, check.Failed, "was changed",
			"kubectl --context east delete clusterrolebinding " + role + "-binding && kubectl --context east delete clusterrole " + role + " && " + newRole + " && " + newBinding,
		},
		"Lease is missing":         {"agent-lease", func(f *Facts) { f.Lease = nil }, onLease, check.Failed, "does not exist although the agent runs", logs},
		"Lease without a holder":   {"agent-lease", func(f *Facts) { f.Lease = lease("", 0) }, onLease, check.Failed, "no pod holds the Lease", restart},
		"Lease is old":             {"agent-lease", func(f *Facts) { f.Lease = lease("fleet-agent-1-a_x", time.Hour) }, onLease, check.Failed, "has not renewed the Lease for 60m", restart},
		"Lease of another process": {"agent-lease", func(f *Facts) { f.Lease = lease("stranger_x", 0) }, onLease, check.Warning, "stranger_x renews the Lease and is not a pod", "kubectl --context east get pods" + in + "-o wide"},
	}
}

func releaseFaults() map[string]fault {
	own := func(status string) func(*Facts) {
		return func(f *Facts) {
			f.Releases = []Release{{Namespace: system, Name: names.Agent, Status: status, Revision: 2, Secret: "sh.helm.release.v1.fleet-agent.v2", Since: clitest.Noon().Add(-time.Hour)}}
		}
	}
	bundle := func(status string) func(*Facts) {
		return func(f *Facts) {
			f.Releases = []Release{{Namespace: "app", Name: "b", Status: status, Revision: 3, Secret: "sh.helm.release.v1.b.v3", Since: clitest.Noon().Add(-time.Hour)}}
		}
	}
	const ownSecret, bundleSecret = "Secret cattle-fleet-system/sh.helm.release.v1.fleet-agent.v2", "Secret app/sh.helm.release.v1.b.v3"
	return map[string]fault{
		"release of the agent is pending":        {"agent-releases-pending", own("pending-upgrade"), ownSecret, check.Failed, "revision 2 of Helm release cattle-fleet-system/fleet-agent is pending-upgrade for 60m", "kubectl --context east delete secret" + in + "sh.helm.release.v1.fleet-agent.v2"},
		"release of a Bundle is pending":         {"agent-releases-pending", bundle("pending-install"), bundleSecret, check.Failed, "pending-install", restart},
		"release of a Bundle is being removed":   {"agent-releases-pending", bundle("uninstalling"), bundleSecret, check.Failed, "uninstalling", restart},
		"release of the agent has failed":        {"agent-releases-failed", own("failed"), ownSecret, check.Warning, "has failed: the agent may be incomplete", repair},
		"release of a Bundle has failed":         {"agent-releases-failed", bundle("failed"), bundleSecret, check.Warning, "revision 3 of Helm release app/b has failed", "kubectl --context HUB describe bundledeployments.fleet.cattle.io -n cluster-fleet-default-east-0f0350029557"},
		"release of a Bundle, without a cluster": {"agent-releases-failed", func(f *Facts) { bundle("failed")(f); f.Credential = Credential{} }, bundleSecret, check.Warning, "has failed", "kubectl --context HUB describe bundledeployments.fleet.cattle.io -n NAMESPACE"},
	}
}

func TestFaults(t *testing.T) {
	checktest.TestFaults(t, Checks(), func() *Facts { return healthy(t) }, faults())
}

// Not every deviation is a problem.
func TestNoFaults(t *testing.T) {
	checktest.TestDeviations(t, Checks(), func() *Facts { return healthy(t) }, map[string]checktest.Deviation[*Facts]{
		"agent with a scope of its own": {"agent-others", func(f *Facts) {
			f.Agents = append(f.Agents, Workload{Kind: KindDeployment, Namespace: "b", Scope: "b", Running: true})
		}},
		"agent that is scaled to 0": {"agent-others", func(f *Facts) { f.Agents = append(f.Agents, Workload{Kind: KindStatefulSet, Namespace: system}) }},
		"old Events about pods that run": {"agent-pods-created", func(f *Facts) {
			f.Refused = []corev1.Event{{InvolvedObject: corev1.ObjectReference{Name: "fleet-agent-1"}, Message: "exceeded quota"}}
		}},
		"container is being created":        {"agent-pods-running", container(func(s *corev1.ContainerStatus) { s.State = waiting("ContainerCreating", "") })},
		"container was restarted yesterday": {"agent-pods-running", container(func(s *corev1.ContainerStatus) { s.LastTerminationState = ended("Error", 1, 24*time.Hour) })},
		"container ended without an error":  {"agent-pods-running", container(func(s *corev1.ContainerStatus) { s.LastTerminationState = ended("Completed", 0, time.Minute) })},
		"memory has a check of its own":     {"agent-pods-running", container(func(s *corev1.ContainerStatus) { s.LastTerminationState = ended("OOMKilled", 137, time.Minute) })},
		"pod that was evicted":              {"agent-pods-scheduled", func(f *Facts) { f.Pods = []corev1.Pod{pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })} }},
		"token expires in a year":           {"agent-credential-expiry", func(f *Facts) { f.Credential.Expires = clitest.Noon().AddDate(1, 0, 0) }},
		"token of a day has six hours left": {"agent-credential-expiry", func(f *Facts) {
			f.Credential.Expires, f.Credential.Lifetime = clitest.Noon().Add(6*time.Hour), 24*time.Hour
		}},
		"bootstrap secret was just written": {"agent-bootstrap", func(f *Facts) { f.Bootstrap = Bootstrap{Exists: true, Since: clitest.Noon().Add(-time.Minute)} }},
		"no CA, and the mode needs none":    {"agent-hub-ca", func(f *Facts) { f.Credential.CA = nil; f.Settings.AgentTLSMode = "system-store" }},
		"proxy without a scheme":            {"agent-proxy", env(corev1.EnvVar{Name: "HTTPS_PROXY", Value: "proxy:3128"})},
		"proxy from a Secret":               {"agent-proxy", env(corev1.EnvVar{Name: "HTTPS_PROXY", ValueFrom: &corev1.EnvVarSource{}})},
		"rights come from another binding":  {"agent-rights", func(f *Facts) { f.HasRole, f.HasBinding = false, false }},
		"Lease of a pod on the host network": {"agent-lease", func(f *Facts) {
			f.Lease = lease("node-1_x", 0)
			f.Pods = []corev1.Pod{pod(func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.NodeName = true, "node-1" })}
		}},
		"no pod is ready":                     {"agent-lease", func(f *Facts) { f.Deployment.Status.ReadyReplicas, f.Lease = 0, lease("", 0) }},
		"operation has just begun":            {"agent-releases-pending", func(f *Facts) { f.Releases[0].Status, f.Releases[0].Since = "pending-upgrade", clitest.Noon() }},
		"heartbeat is newer than this clock":  {"agent-hub-heartbeat", func(f *Facts) { f.Probe.Seen.LastSeen = clitest.Noon().Add(time.Minute) }},
		"no hub, and no other clock is known": {"agent-clock", func(f *Facts) { f.Clock, f.Probe = hubclient.Response{}, Probe{} }},
	})
}

// A cluster without an agent has one problem, not twenty.
func TestClusterWithoutAgent_FailsOneCheck(t *testing.T) {
	f := healthy(t)
	*f = Facts{Scope: f.Scope, Now: f.Now, Kubernetes: f.Kubernetes, Clock: f.Clock}
	var failed []string
	for _, row := range check.Run(Checks(), f, nil) {
		if row.Verdict == check.Failed || row.Verdict == check.Warning {
			failed = append(failed, row.ID)
		}
	}
	if len(failed) != 1 || failed[0] != "agent-namespace" {
		t.Errorf("failed: %v", failed)
	}
}

func TestProxy_IsNamedWithoutItsPassword(t *testing.T) {
	for name, test := range map[string]struct {
		variables []corev1.EnvVar
		want      string
	}{
		"none":             {nil, "no proxy"},
		"proxy":            {[]corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://user:CANARY@proxy.example.com:3128"}}, "the agent reaches hub.example.com:6443 through the proxy proxy.example.com:3128"},
		"lower case":       {[]corev1.EnvVar{{Name: "https_proxy", Value: "http://proxy.example.com:3128"}}, "the agent reaches hub.example.com:6443 through the proxy proxy.example.com:3128"},
		"hub in NO_PROXY":  {[]corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://p"}, {Name: "NO_PROXY", Value: "10.0.0.0/8,.example.com"}}, "the agent reaches hub.example.com:6443 directly, because NO_PROXY contains it"},
		"hub is not known": {[]corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://p"}}, "a proxy is set"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(t)
			env(test.variables...)(f)
			if name == "hub is not known" {
				f.Credential = Credential{}
			}
			if rows := checkProxy(f); len(rows) != 1 || rows[0].Cause != test.want {
				t.Errorf("rows: %+v", rows)
			}
		})
	}
}

func TestHostileNames_AreNotInFixes(t *testing.T) {
	f := healthy(t)
	f.Credential.Cluster = types.NamespacedName{Namespace: "--server=https://example.org", Name: "x; rm -rf ~"}
	f.Deployment = nil
	found := checktest.Problems(Checks(), f, "agent-deployment")
	if want := "fleet --context HUB repair NAME -n WORKSPACE"; len(found) != 1 || found[0].Fix != want {
		t.Errorf("rows: %+v", found)
	}
	if name, patch := raisedQuota("exceeded quota: -x, requested: pods=1, used: pods=1, limited: pods=1"); name != "" || patch != "" {
		t.Errorf("quota %q %q", name, patch)
	}
}

func TestUnreachableCluster_FailsOneCheckAndSkipsTheOthers(t *testing.T) {
	f := healthy(t)
	rows := Unreachable(f.Scope, errors.New("no route"), clitest.Noon()).Rows()
	for _, row := range rows {
		if want := map[bool]check.Verdict{true: check.Failed, false: check.Skipped}[row.ID == "agent-api"]; row.Verdict != want {
			t.Errorf("%+v", row)
		}
	}
	if len(rows) != len(Checks()) {
		t.Errorf("%d rows", len(rows))
	}
}

package grant_test

import (
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// aRequest is rulestest.ARequest.
func aRequest(modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
	return rulestest.ARequest(modifiers...)
}

func requestNamed(name string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		r.Name, r.UID, r.Spec.ClientRandom = name, types.UID(name+"-uid"), "random of "+name
	}
}

func requestClient(clientID string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.Spec.ClientID = clientID }
}

func requestMadeAt(t metav1.Time) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.CreationTimestamp = t }
}

func requestLabels(labels map[string]string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.Spec.ClusterLabels = labels }
}

func requestGoing(r *fleet.ClusterRegistration) {
	going := rulestest.At(-time.Second)
	r.DeletionTimestamp = &going
}

// requestOf means that the request has been told its Cluster.
func requestOf(cluster string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.Status.ClusterName = cluster }
}

// requestOwned means that the Cluster of this name and UID owns the request.
func requestOwned(cluster string, uid types.UID) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{
			APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: cluster, UID: uid,
		})
	}
}

// requestOfTeam means that something else than a Cluster owns the request.
func requestOfTeam(r *fleet.ClusterRegistration) {
	r.OwnerReferences = []metav1.OwnerReference{{Kind: "Team", Name: "blue"}}
}

// requestNoted means that this was the Cluster's heartbeat before the grant.
func requestNoted(lastSeen string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		r.Annotations = map[string]string{annotation.LastSeenAtGrant: lastSeen}
	}
}

// requestGranted means that the request was granted for Cluster east and is owned by it.
func requestGranted(r *fleet.ClusterRegistration) {
	r.Status.ClusterName, r.Status.Granted = "east", true
	requestOwned("east", "cluster-uid")(r)
}

// requestGrantedAt adds the time of the grant, as our condition has it.
func requestGrantedAt(t metav1.Time) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		requestGranted(r)
		r.Status.Conditions = []genericcondition.GenericCondition{{
			Type: conditions.Granted, Status: corev1.ConditionTrue, LastUpdateTime: t.Format(time.RFC3339),
		}}
	}
}

// requestSaid means that the request's condition has this reason.
func requestSaid(reason string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		r.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Granted, Status: corev1.ConditionFalse, Reason: reason}}
	}
}

// requestWith means that the request was made with that token, or that none is named.
func requestWith(token string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.Labels = map[string]string{fleet.LabelRegistrationToken: token} }
}

// requestNamesake adds a request of the same name in another workspace, made so much later.
func requestNamesake(workspace string, later time.Duration) func(*grant.Input) {
	return func(in *grant.Input) {
		other := aRequest()
		other.Namespace, other.UID = workspace, "other"
		other.CreationTimestamp = metav1.NewTime(in.Request.CreationTimestamp.Add(later))
		in.Namesakes = append(in.Namesakes, other)
	}
}

// grantInput is a request of which nothing else was found.
func grantInput(modifiers ...func(*grant.Input)) grant.Input {
	return *rulestest.Build(&grant.Input{Now: rulestest.Noon(), Request: aRequest(), Namespaces: rulestest.HubNamespaces()}, modifiers)
}

func with(modifiers ...func(*fleet.ClusterRegistration)) func(*grant.Input) {
	return func(in *grant.Input) { in.Request = aRequest(modifiers...) }
}

// found adds a Cluster with the request's client ID.
func found(modifiers ...func(*fleet.Cluster)) func(*grant.Input) {
	return func(in *grant.Input) { in.Clusters = append(in.Clusters, rulestest.ACluster(modifiers...)) }
}

// named is the Cluster in the request's status.
func named(modifiers ...func(*fleet.Cluster)) func(*grant.Input) {
	return func(in *grant.Input) { in.Named = rulestest.ACluster(modifiers...) }
}

// derived is the Cluster of the name that the client ID gives.
func derived(modifiers ...func(*fleet.Cluster)) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Derived = rulestest.ACluster(append([]func(*fleet.Cluster){rulestest.ClusterNamed(derivedName)}, modifiers...)...)
	}
}

// derivedName is the name of a Cluster made for client ID c1.
const derivedName = "cluster-d0f631ca1ddb"

func requestAccount(in *grant.Input) {
	in.Account = rulestest.AnAccount(rulestest.ACluster().Status.Namespace, "request-1-r1", "account-1")
}

func requestRights(in *grant.Input) { in.RightsExist, in.AccessExists = true, true }

// credential means that this bearer token was handed out.
func credential(bearer string) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Credential = grant.CredentialSecret(in.Request, in.Namespaces.Registration, protocol.Credential{
			Token: bearer, DeploymentNamespace: rulestest.ACluster().Status.Namespace, ClusterNamespace: rulestest.Workspace, ClusterName: "east",
		})
		in.Credential.CreationTimestamp = rulestest.At(-20 * time.Second)
	}
}

// answering means that the credential is the answer to that request.
func answering(name, namespace string) func(*grant.Input) {
	return func(in *grant.Input) {
		if in.Credential == nil {
			credential(rulestest.BoundJWT("account-2", time.Time{}))(in)
		}
		in.Credential.Annotations = map[string]string{
			fleet.AnnotationClusterRegistration: name, fleet.AnnotationClusterRegistrationNamespace: namespace,
		}
	}
}

func asked(in *grant.Input) { in.NamedToken = rulestest.AToken() }

// askedWith means that the request names that token.
func askedWith(token string) func(*grant.Input) {
	return func(in *grant.Input) {
		requestWith(token)(in.Request)
	}
}

// askedBy is the token that the request names.
func askedBy(modifiers ...func(*fleet.ClusterRegistrationToken)) func(*grant.Input) {
	return func(in *grant.Input) { in.NamedToken = rulestest.AToken(modifiers...) }
}

// tokenOfImport is owned by the Cluster it was made for.
func tokenOfImport(t *fleet.ClusterRegistrationToken) {
	t.OwnerReferences = []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "east", UID: "cluster-uid"}}
}

// importer is the Cluster for whose import the token was made; it has another client ID than the request.
func importer(modifiers ...func(*fleet.Cluster)) func(*grant.Input) {
	return func(in *grant.Input) {
		in.Importer = rulestest.ACluster(append(modifiers, rulestest.ClusterClient("c2"))...)
	}
}

func nobodyAsked(in *grant.Input) { in.NamedToken = nil }

func imported(in *grant.Input) {
	in.Imported = rulestest.AToken(func(t *fleet.ClusterRegistrationToken) { t.Name, t.UID = "import-token-east", "i1" })
}

func others(requests ...*fleet.ClusterRegistration) func(*grant.Input) {
	return func(in *grant.Input) { in.Others = append(in.Others, requests...) }
}

// sameAnswer adds requests that the same Secret would answer.
func sameAnswer(requests ...*fleet.ClusterRegistration) func(*grant.Input) {
	return func(in *grant.Input) { in.SameAnswer = append(append(in.SameAnswer, in.Request), requests...) }
}

// begun means that this process has begun to answer these requests.
func begun(uids ...types.UID) func(*grant.Input) {
	return func(in *grant.Input) { in.Begun = append(in.Begun, uids...) }
}

func later(d time.Duration) func(*grant.Input) {
	return func(in *grant.Input) { in.Now = in.Now.Add(d) }
}

// requestTokenUID adds the recorded UID of the token.
func requestTokenUID(uid string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[annotation.TokenUIDAtGrant] = uid
	}
}

// requestOfAgent records with which key and token a request was granted.
func requestOfAgent(key, token string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		requestTokenUID(token)(r)
		r.Annotations[annotation.AgentKeyAtGrant] = key
	}
}

func tokenUID(uid types.UID) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.UID = uid }
}

func tokenMadeAt(made metav1.Time) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.CreationTimestamp = made }
}
